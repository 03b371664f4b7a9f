-- Takes from a flow (../flow.lua): token bucket, leaky buckets, GCRA, smooth bursty.
--
-- in: state, tries (the value and the count, except during a block); a: the capacity in units; b: the mark of the
-- parameters; c: 1 if a take is admitted once the debt of the preceding ones is repaid (smooth bursty); d, e: period and
-- excess of a rate whose unit is not a nanosecond, otherwise 0
repeat
  local tat, expires, is_limited = 0, 0, false
  if state then
    if #state ~= FLOW_SIZE then
      break
    end
    local at, mark
    at, mark, expires = unpack('<ddd', state)
    tat = (at - now) * 1000 - nanos
    if mark ~= b then
      if not (mark >= MARK_FIRST and mark < MARK_END) then
        break
      end
      local low = mark % MARK_DIGEST
      local overdrawn = low % 2
      tat, is_limited = tat + (low - overdrawn) / 2, mark - low ~= b and overdrawn == 0
    end
    if tat < 0 then
      tat = 0
    elseif tat > 2 ^ 52 then
      break
    end
  end
  if e == 0 and block == 0 then
    -- Then the decision depends on nothing else.
    ahead = tat
  end
  -- In units from the start of the current period: the usage, and the capacity.
  local used, full, since, difference = tat, a, 0, nil
  if e > 0 then
    -- Returns ceil(amount * excess / per): the difference between nanoseconds and units. With the period as `per` it
    -- converts nanoseconds to units, rounding down; with the units of a period it converts them back, rounding up.
    difference = function(amount, excess, per)
      local rest = amount % per
      local product = rest * excess
      local over = product % per
      local result = (amount - rest) / per * excess + (product - over) / per
      return over > 0 and result + 1 or result
    end
    since = now % (d / 1000) * 1000 + nanos
    used = since - difference(since, e, d)
    full = used + a
    if tat > 0 then
      used = since + tat - difference(since + tat, e, d)
    end
  end
  local room = full - used
  if is_limited and room < 0 then
    -- The limit has become faster, and its TAT has to be clamped.
    break
  end
  passed = (room - room % cost) / cost + c
  if passed <= 0 or tries == 0 then
    passed = 0
    break
  elseif passed > tries then
    passed = tries
  end
  used = used + passed * cost
  local whole = used + nanos
  if difference then
    whole = whole + difference(used, e, d - e) - since
  end
  local rest = whole % 1000
  local at = now + (whole - rest) / 1000
  local needed, millis = (at - at % 1000) / 1000 + 1 + margin, (now - now % 1000) / 1000
  if caller_time then
    -- The key expires by the server's clock, whose difference to the caller's is unknown.
    command, argument, expires = 'PSETEX', needed - millis, 0
  elseif needed <= expires then
    -- SETRANGE costs half as much as PSETEX. Twice the margin makes it suffice for most writes.
    command, argument = 'SETRANGE', '0'
  else
    expires = needed + margin
    command, argument = 'PSETEX', expires - millis
  end
  after = pack('<ddd', at, b + rest * 2 + (used > full and 1 or 0), expires)
until true
