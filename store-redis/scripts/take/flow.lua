-- Takes from a flow (../flow.lua): token bucket, leaky buckets, GCRA, smooth bursty; deltas on a token bucket, a leaky
-- meter or GCRA.
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
    -- @only takes
    if tat < 0 then
      tat = 0
    end
    -- @always
    if tat > 2 ^ 52 then
      break
    end
  end
  -- @only takes
  if e == 0 and block == 0 then
    -- Then the decision depends on nothing else.
    ahead = tat
  end
  -- @only deltas
  -- A debit counts from its instant on, but not from before the TAT.
  local earliest = cost > 0 and dated and dated < 0 and dated or 0
  if tat < earliest or not state then
    tat = earliest
  end
  -- @always
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
    if tat ~= 0 then
      used = since + tat - difference(since + tat, e, d)
    end
  end
  -- @only takes
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
  -- @only deltas
  passed = 1
  local is_clamped = is_limited and used > full
  if is_clamped then
    used = full
  end
  if cost > 0 then
    used = used + cost
  else
    local amount, least = -cost, full - a
    if dated and dated > 0 then
      -- A reservation that has not started: others may wait behind it.
      passed = nil
      break
    elseif dated then
      -- No more than is left of the latest TAT that the debit can have caused.
      local at = e > 0 and since + dated - difference(since + dated, e, d) or dated
      local left = at + (amount > a and amount or a) - least
      amount = left < 0 and 0 or left < amount and left or amount
    end
    local before = used
    used = used - amount > least and used - amount or least
    if used == before and not is_clamped then
      break
    end
  end
  if used > 2 ^ 51 then
    passed = nil
    break
  end
  -- @always
  local whole = used + nanos
  if difference then
    whole = whole + difference(used, e, d - e) - since
  end
  local rest = whole % 1000
  local at = now + (whole - rest) / 1000
  local needed, millis = (at - at % 1000) / 1000 + 1 + margin, (now - now % 1000) / 1000
  -- @only deltas
  if needed <= millis + margin then
    -- A debit of the past has been refilled since.
    needed = millis + margin + 1
  end
  if cost < 0 then
    -- The time-to-live is shorter than before.
    expires = 0
  end
  -- @always
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
