-- Takes from a token bucket refilled by interval (../interval_bucket.lua), and deltas on one. a: the capacity; b: what
-- a period refills; c: the period
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
  -- @only takes
  local room = a - missing
  local fitting = (room - room % cost) / cost
  if fitting < 0 then
    fitting = 0
  elseif fitting > tries then
    fitting = tries
  end
  missing = missing + fitting * cost
  -- @only deltas
  if cost < 0 then
    local refund = -cost
    if dated and dated > 0 then
      -- A reservation that has not started: others may wait behind it.
      break
    elseif dated and dated < since then
      -- A debit from before the current period has been refilled since, partly or completely.
      local part = (since - dated) % c
      refund = refund - ((since - dated - part) / c + (part > 0 and 1 or 0)) * b
    end
    if refund > 0 then
      missing = missing > refund and missing - refund or 0
    end
  elseif missing == 0 and dated and dated < 0 then
    -- The bucket was full until then: the period started with this debit.
    local rest = -dated % c
    missing, since = cost - (-dated - rest) / c * b, -rest
  else
    missing = missing + cost
  end
  if missing > 2 ^ 52 then
    break
  end
  -- @always
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
  -- @only takes
  passed = fitting
  -- @only deltas
  passed = 1
  -- @always
until true
