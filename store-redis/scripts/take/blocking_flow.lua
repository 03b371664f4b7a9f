-- Takes from a flow with a block time, whose value is that of a flow and the end of the block.

takes[BLOCKING_FLOW] = function(value, count, cost, block, room, parameters, is_repaid, period, excess)
  local flow, blocked, high, low = value, 0, 0, 0
  if value then
    if #value ~= FLOW_SIZE + 8 then
      return nil
    end
    high, low = unpack('>I2I6', value, FLOW_SIZE + 1)
    flow, blocked = value:sub(1, FLOW_SIZE), (high - now_high) * BASE + low - now_low
    if blocked > EXACT then
      return nil
    end
  end
  local tries = blocked > 0 and 0 or count
  local passed, command, argument, after =
    takes[FLOW](flow, tries, cost, 0, room, parameters, is_repaid, period, excess)
  if not passed then
    return nil
  end
  if passed < tries then
    -- A denial starts the block. The time-to-live is unknown afterwards, so that the next take sets it.
    high, low = words(block)
    local at, mark = unpack('<dd', after or flow)
    local ahead = (at - now) * 1000 + 1000
    command, argument = 'PSETEX', time_to_live(ahead > block and ahead or block)
    after = pack('<ddd', at, mark, 0)
  end
  if command == 'PSETEX' then
    after = after .. pack('>I2I6', high, low)
  end
  return passed, command, argument, after
end
