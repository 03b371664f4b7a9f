-- Takes from a flow (flow.lua): token bucket, leaky buckets, GCRA, smooth bursty.
--
-- room        the capacity in units
-- parameters  the mark of the parameters
-- is_repaid   1 if a take is admitted once the debt of the preceding ones is repaid (smooth bursty)
-- period, excess   of a rate whose unit is not a nanosecond; zero otherwise

takes[FLOW] = function(value, count, cost, _, room, parameters, is_repaid, period, excess)
  local ahead, expires, is_limited = 0, 0, false
  if value then
    if #value ~= FLOW_SIZE then
      return nil
    end
    local at, mark
    at, mark, expires = unpack('<ddd', value)
    ahead = (at - now) * 1000 - nanos
    if mark ~= parameters then
      if not (mark >= MARK_FIRST and mark < MARK_END) then
        return nil
      end
      local low = mark % MARK_DIGEST
      local overdrawn = low % 2
      ahead, is_limited = ahead + (low - overdrawn) / 2, mark - low ~= parameters and overdrawn == 0
    end
    if ahead < 0 then
      ahead = 0
    elseif ahead > EXACT then
      return nil
    end
  end
  -- In units from the start of the current period: the usage, and the capacity.
  local used, full, since, difference = ahead, room, 0, nil
  if excess > 0 then
    -- Returns ceil(amount * excess / per): the difference between nanoseconds and units. With the period as `per` it
    -- converts nanoseconds to units, rounding down; with the units of a period it converts them back, rounding up.
    difference = function(amount, per)
      local rest = amount % per
      local product = rest * excess
      local over = product % per
      local result = (amount - rest) / per * excess + (product - over) / per
      return over > 0 and result + 1 or result
    end
    since = now % (period / 1000) * 1000 + nanos
    used = since - difference(since, period)
    full = used + room
    if ahead > 0 then
      used = since + ahead - difference(since + ahead, period)
    end
  end
  if is_limited and used > full then
    -- The limit has become faster, and its TAT has to be clamped.
    return nil
  end
  local passed = 0
  if is_repaid == 0 then
    passed = fitting(full - used, count, cost)
  elseif count > 0 and used <= full then
    passed = 1 + fitting(full - used, count - 1, cost)
  end
  if passed == 0 then
    return 0
  end
  used = used + passed * cost
  local whole = (difference and used + difference(used, period - excess) - since or used) + nanos
  local rest = whole % 1000
  local at = now + (whole - rest) / 1000
  local needed = (at - at % 1000) / 1000 + 1 + margin
  local command, argument = 'SETRANGE', '0'
  if caller_time then
    -- The key expires by the server's clock, whose difference to the caller's is unknown.
    command, argument, expires = 'PSETEX', needed - now_millis, 0
  elseif needed > expires then
    -- SETRANGE costs half as much as PSETEX. Twice the margin makes it suffice for most writes.
    expires = needed + margin
    command, argument = 'PSETEX', expires - now_millis
  end
  return passed, command, argument, pack('<ddd', at, parameters + rest * 2 + (used > full and 1 or 0), expires)
end
