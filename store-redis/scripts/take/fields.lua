-- Takes on states that are stored as fields: the header of read_value in decide.lua, then the algorithm's own fields.
--
--   steps[code](value, from, tries, cost, ...)   decides `tries` equal takes on the fields of a value from an offset on
--          (nil: there are none). Returns how many pass, the fields after them (nil: there are none), and the span
--          after which they equal fresh ones. Returns nil to leave it to the general script.

take_fields = function(step, value, count, cost, block, a, b, c)
  local from, blocked, fields = block > 0 and 19 or 10, 0, nil
  local fresh_high, fresh_low, blocked_high, blocked_low = 0, 0, 0, 0
  if value then
    if #value < from - 1 or value:byte() ~= VERSION then
      return nil
    end
    fresh_high, fresh_low = unpack('>I2I6', value, 2)
    -- A state that was fresh under the parameters that wrote it does not come back under others.
    if (fresh_high - now_high) * BASE + fresh_low - now_low > 0 then
      fields = value
      if block > 0 then
        local has_fields
        blocked_high, blocked_low, has_fields = unpack('>I2I6B', value, 10)
        blocked = (blocked_high - now_high) * BASE + blocked_low - now_low
        fields = has_fields == 1 and value or nil
      end
    end
  end
  local tries = blocked > 0 and 0 or count
  local passed, after, span = step(fields, from, tries, cost, a, b, c)
  if not passed or blocked > EXACT then
    return nil
  end
  local marker = ''
  if block > 0 then
    if passed < tries then
      blocked, blocked_high, blocked_low = block, words(block)
    end
    span = blocked > span and blocked or span
    marker = pack('>I2I6B', blocked_high, blocked_low, after and 1 or 0)
  elseif not after then
    return nil
  end
  local high, low = words(span)
  after = after or ''
  if value and high == fresh_high and low == fresh_low and (block == 0 or value:sub(10, 18) == marker) then
    -- Only the fields have changed, if anything.
    if passed == 0 and value:sub(from) == after then
      return 0
    elseif not caller_time and #value == from + #after - 1 then
      -- SETRANGE costs half as much as PSETEX, and keeps the time-to-live.
      return passed, 'SETRANGE', from - 1, after
    end
  end
  return passed, 'PSETEX', time_to_live(span), pack('>BI2I6', VERSION, high, low) .. marker .. after
end
