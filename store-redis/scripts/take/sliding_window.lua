-- Takes from a sliding window (sliding_window.lua).

steps[SLIDING_WINDOW] = function(value, from, tries, cost, count, period)
  local start, previous, current = -(now % (period / 1000) * 1000 + nanos), 0, 0
  if value then
    if #value ~= from + 29 then
      return nil
    end
    local period_high, period_low, high, low, before, latest = unpack('>I2I6I2I6I7I7', value, from)
    local at = (high - now_high) * BASE + low - now_low
    if at > EXACT then
      return nil
    elseif period_high * BASE + period_low == period and at + period > 0 then
      start, previous, current = at, before, latest
    elseif at >= start then
      start, previous, current = at > 0 and at or start, before, latest
    elseif at + period >= start then
      -- A debt expires with its window, so no more than the limit is carried over.
      previous = latest < count and latest or count
    end
  end
  local used = current
  if previous > 0 then
    -- The part of the previous window that the sliding window still covers.
    local covered, whole = start < 0 and period + start or period, period
    covered = covered > 0 and covered or 0
    if previous * covered >= 2 ^ 53 then
      covered, whole = covered / 1000, whole / 1000
      if previous * covered >= 2 ^ 53 or covered % 1 > 0 then
        return nil
      end
    end
    local weight = previous * covered
    local rest = weight % whole
    used = used + (weight - rest) / whole + (rest > 0 and 1 or 0)
  end
  local passed = fitting(count - used, tries, cost)
  current = current + passed * cost
  if previous == 0 and current == 0 then
    return 0, nil, 0
  end
  local high, low = words(start)
  local period_low = period % BASE
  return passed, pack('>I2I6I2I6I7I7', (period - period_low) / BASE, period_low, high, low, previous, current),
    current > 0 and start + 2 * period or start + period
end
