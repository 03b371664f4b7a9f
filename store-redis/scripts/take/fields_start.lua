-- Takes and deltas on states that are stored as fields: the header of read_value in ../decide.lua, then the algorithm's own fields.
-- Between this file and the next one is the block of the algorithm:
--
-- in:  state (the value; nil if it has no fields), offset (where they start), tries (the count; 0 during a block)
-- out: fields (those after it; nil: none), span (after which they equal fresh ones)
local offset, blocked, fields, span = block > 0 and 19 or 10, 0, nil, 0
local fresh_high, fresh_low, blocked_high, blocked_low = 0, 0, 0, 0
local state, is_own = nil, true
if value then
  is_own = #value >= offset - 1 and value:byte() == VERSION
  if is_own then
    fresh_high, fresh_low = unpack('>I2I6', value, 2)
    -- A state that was fresh under the parameters that wrote it does not come back under others.
    if (fresh_high - now_high) * 2 ^ 48 + fresh_low - now_low > 0 then
      state = value
      if block > 0 then
        local has_fields
        blocked_high, blocked_low, has_fields = unpack('>I2I6B', value, 10)
        blocked = (blocked_high - now_high) * 2 ^ 48 + blocked_low - now_low
        state = has_fields == 1 and value or nil
      end
    end
  end
end
-- @only takes
local tries = blocked > 0 and 0 or count
-- @always
