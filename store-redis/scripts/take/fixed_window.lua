-- Takes from a fixed window (../fixed_window.lua), and deltas on an aligned one. a: the count; b: the period; c: 1 if
-- windows are anchored
repeat
  local start, used = 0, 0
  if c == 0 then
    start = -(now % (b / 1000) * 1000 + nanos)
  end
  if state then
    if #state ~= offset + 14 then
      break
    end
    local high, low, stored = unpack('>I2I6I7', state, offset)
    local at = (high - now_high) * 2 ^ 48 + low - now_low
    if at > 2 ^ 52 then
      break
    elseif c == 1 then
      if at + b > 0 then
        start, used = at, stored
      end
    elseif at >= start then
      -- A window that is longer than before starts earlier; the count is kept.
      start, used = at > 0 and at or start, stored
    end
  end
  -- @only takes
  local room = a - used
  passed = (room - room % cost) / cost
  if passed < 0 then
    passed = 0
  elseif passed > tries then
    passed = tries
  end
  used = used + passed * cost
  -- @only deltas
  -- An instant before this window belongs to one that has ended, whose count no longer matters.
  if not (dated and dated < start) then
    used = used + cost > 0 and used + cost or 0
  end
  passed = used < 2 ^ 52 and 1
  -- @always
  if used > 0 then
    local sum = now_low + start
    local low = sum % 2 ^ 48
    fields, span = pack('>I2I6I7', now_high + (sum - low) / 2 ^ 48, low, used), start + b
  end
until true
