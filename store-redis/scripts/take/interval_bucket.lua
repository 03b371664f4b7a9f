-- Takes from a token bucket refilled by interval (../interval_bucket.lua). a: the capacity; b: what a period refills;
-- c: the period
repeat
  local missing, since = 0, 0
  if state then
    if #state ~= offset + 15 then
      break
    end
    local high, low, overdrawn
    missing, high, low, overdrawn = unpack('>I7I2I6B', state, offset)
    since = (high - now_high) * 2 ^ 48 + low - now_low
    if since > 2 ^ 52 or since < -2 ^ 52 then
      break
    end
    if overdrawn == 0 and missing > a then
      missing = a
    end
    if since + c <= 0 then
      local rest = -since % c
      missing, since = missing - (-since - rest) / c * b, -rest
    end
    if missing <= 0 then
      missing, since = 0, 0
    end
  end
  local room = a - missing
  local fitting = (room - room % cost) / cost
  if fitting < 0 then
    fitting = 0
  elseif fitting > tries then
    fitting = tries
  end
  missing = missing + fitting * cost
  if missing > 0 then
    local part = missing % b
    span = since + ((missing - part) / b + (part > 0 and 1 or 0)) * c
    if span > 2 ^ 52 then
      break
    end
    local sum = now_low + since
    local low = sum % 2 ^ 48
    fields = pack('>I7I2I6B', missing, now_high + (sum - low) / 2 ^ 48, low, missing > a and 1 or 0)
  end
  passed = fitting
until true
