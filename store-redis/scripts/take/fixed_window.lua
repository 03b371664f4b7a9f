-- Takes from a fixed window (fixed_window.lua).

steps[FIXED_WINDOW] = function(value, from, tries, cost, count, period, anchored)
  local start, used = 0, 0
  if anchored == 0 then
    start = -(now % (period / 1000) * 1000 + nanos)
  end
  if value then
    if #value ~= from + 14 then
      return nil
    end
    local high, low, stored = unpack('>I2I6I7', value, from)
    local at = (high - now_high) * BASE + low - now_low
    if at > EXACT then
      return nil
    elseif anchored == 1 then
      if at + period > 0 then
        start, used = at, stored
      end
    elseif at >= start then
      -- A window that is longer than before starts earlier; the count is kept.
      start, used = at > 0 and at or start, stored
    end
  end
  local passed = fitting(count - used, tries, cost)
  used = used + passed * cost
  if used == 0 then
    return 0, nil, 0
  end
  local high, low = words(start)
  return passed, pack('>I2I6I7', high, low, used), start + period
end
