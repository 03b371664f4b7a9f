-- Shared by bucket_takes.lua and bucket_debits.lua: the time, and how buckets are read and written.
--
-- ARGV[1]  '<d'   the expiry margin in milliseconds; then the script's own input
-- ARGV[2]  '<dd'  the caller's time in microseconds and nanoseconds, if the caller's clock decides
--
-- A bucket has its parameters as core's Rate has them: units, and the nanoseconds by which a period exceeds its units.

local call, unpack_list, unpack, pack, keys = redis.call, unpack, struct.unpack, struct.pack, KEYS
local input, now, nanos, caller_time = ARGV[1], 0, 0, ARGV[2]
if caller_time then
  now, nanos = unpack('<dd', caller_time)
else
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
end
local margin, from = unpack('<d', input)
local now_millis = (now - now % 1000) / 1000

-- Returns ceil(amount * excess / per): the difference between nanoseconds and units. With the period as `per` it
-- converts nanoseconds to units, rounding down; with the units of a period it converts them back, rounding up.
local function difference(amount, excess, per)
  local rest = amount % per
  local product = rest * excess
  local over = product % per
  local result = (amount - rest) / per * excess + (product - over) / per
  if over > 0 then
    return result + 1
  end
  return result
end

-- Decodes a stored value. Returns the nanoseconds from now to its TAT, whether the current parameters limit that (other
-- parameters wrote it, and it is not overdrawn), and the expiry. If it is not a bucket, returns nil and the error.
local function decode(value, parameters)
  if #value ~= FLOW_SIZE then
    return nil, value.err or FOREIGN_PROGRAM
  end
  local at, mark, expires = unpack('<ddd', value)
  local ahead = (at - now) * 1000 - nanos
  if mark == parameters then
    return ahead, false, expires
  elseif not (mark >= MARK_FIRST and mark < MARK_END) then
    return nil, FOREIGN_VERSION
  end
  local low = mark % MARK_DIGEST
  local overdrawn = low % 2
  return ahead + (low - overdrawn) / 2, mark - low ~= parameters and overdrawn == 0, expires
end

-- Encodes a bucket whose TAT is `ahead` nanoseconds from now. Returns the value, and the command that writes it with
-- the argument before the value: PSETEX and the time-to-live, or SETRANGE and '0' if the key's current one suffices.
local function encode(ahead, parameters, overdrawn, expires)
  local whole = ahead + nanos
  local rest = whole % 1000
  local at = now + (whole - rest) / 1000
  local needed = (at - at % 1000) / 1000 + 1
  if needed < now_millis then
    needed = now_millis
  end
  needed = needed + margin
  local command, argument = 'SETRANGE', '0'
  if caller_time then
    -- The key expires by the server's clock, whose difference to the caller's is unknown.
    command, argument, expires = 'PSETEX', needed - now_millis, 0
  elseif needed > expires then
    -- SETRANGE costs half as much as PSETEX. Twice the margin makes it suffice for most writes.
    expires = needed + margin
    command, argument = 'PSETEX', expires - now_millis
  end
  return pack('<ddd', at, parameters + rest * 2 + overdrawn, expires), command, argument
end

