-- The value of a flow with a block time is that of the flow, and then the end of the block.
local state, tries, blocked, high, low = value, count, 0, 0, 0
if value and #value == FLOW_SIZE + 8 then
  high, low = unpack('>I2I6', value, FLOW_SIZE + 1)
  state, blocked = value:sub(1, FLOW_SIZE), (high - now_high) * 2 ^ 48 + low - now_low
  tries = blocked > 0 and 0 or count
elseif value then
  -- Not such a value, and no flow either.
  state = ''
end
