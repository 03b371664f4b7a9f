-- Takes from a token bucket refilled by interval (interval_bucket.lua).

steps[INTERVAL_BUCKET] = function(value, from, tries, cost, capacity, refill, period)
  local missing, since = 0, 0
  if value then
    if #value ~= from + 15 then
      return nil
    end
    local high, low, overdrawn
    missing, high, low, overdrawn = unpack('>I7I2I6B', value, from)
    since = (high - now_high) * BASE + low - now_low
    if since > EXACT or since < -EXACT then
      return nil
    end
    if overdrawn == 0 and missing > capacity then
      missing = capacity
    end
    if since + period <= 0 then
      local rest = -since % period
      missing, since = missing - (-since - rest) / period * refill, -rest
    end
    if missing <= 0 then
      missing, since = 0, 0
    end
  end
  local passed = fitting(capacity - missing, tries, cost)
  missing = missing + passed * cost
  if missing == 0 then
    return 0, nil, 0
  end
  local part = missing % refill
  local span = since + ((missing - part) / refill + (part > 0 and 1 or 0)) * period
  if span > EXACT then
    return nil
  end
  local high, low = words(since)
  return passed, pack('>I7I2I6B', missing, high, low, missing > capacity and 1 or 0), span
end
