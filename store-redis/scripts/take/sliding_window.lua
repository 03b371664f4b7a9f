-- Takes from a sliding window (../sliding_window.lua), and deltas on one. a: the count; b: the period
repeat
  local start, previous, current = -(now % (b / 1000) * 1000 + nanos), 0, 0
  if state then
    if #state ~= offset + 29 then
      break
    end
    local period_high, period_low, high, low, before, latest = unpack('>I2I6I2I6I7I7', state, offset)
    local at = (high - now_high) * 2 ^ 48 + low - now_low
    if at > 2 ^ 52 then
      break
    elseif period_high * 2 ^ 48 + period_low == b and at + b > 0 then
      start, previous, current = at, before, latest
    elseif at >= start then
      start, previous, current = at > 0 and at or start, before, latest
    elseif at + b >= start then
      -- A debt expires with its window, so no more than the limit is carried over.
      previous = latest < a and latest or a
    end
  end
  -- @only takes
  local used = current
  if previous > 0 then
    -- The previous window counts by the part of it that the sliding window covers.
    local covered, period = start < 0 and b + start or b, b
    covered = covered > 0 and covered or 0
    if previous * covered >= 2 ^ 53 then
      covered, period = covered / 1000, period / 1000
      if previous * covered >= 2 ^ 53 or covered % 1 > 0 then
        break
      end
    end
    local weight = previous * covered
    local rest = weight % period
    used = used + (weight - rest) / period + (rest > 0 and 1 or 0)
  end
  local room = a - used
  passed = (room - room % cost) / cost
  if passed < 0 then
    passed = 0
  elseif passed > tries then
    passed = tries
  end
  current = current + passed * cost
  -- @only deltas
  if not (dated and dated < start) then
    current = current + cost > 0 and current + cost or 0
  elseif start <= dated + b then
    previous = previous + cost > 0 and previous + cost or 0
  end
  passed = previous < 2 ^ 52 and current < 2 ^ 52 and 1
  -- @always
  if previous > 0 or current > 0 then
    local sum, period_low = now_low + start, b % 2 ^ 48
    local low = sum % 2 ^ 48
    fields = pack('>I2I6I2I6I7I7', (b - period_low) / 2 ^ 48, period_low, now_high + (sum - low) / 2 ^ 48, low, previous,
      current)
    span = start + (current > 0 and 2 * b or b)
  end
until true
