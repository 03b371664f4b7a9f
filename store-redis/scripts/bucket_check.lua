-- One plain take from one bucket, which nearly all checks are: no wait, no block, and a rate without excess. The
-- decision is that of flow.lua, in less time; the caller derives it from the state. Written without functions, which a
-- server would create anew for every check.
--
-- KEYS[1]  the state, in the format of flow.lua
-- ARGV[1]  '<dddd'  the cost and the capacity in nanoseconds, the expiry margin in milliseconds, the mark of the
--                   parameters
-- ARGV[2]  '<dd'    the caller's time in microseconds and nanoseconds, if the caller's clock decides
-- reply    the nanoseconds from now to the TAT before the take; if that is too large for an exact number, which happens
--          only to a heavily overdrawn bucket, the time in microseconds and nanoseconds and the stored value

local call, key = redis.call, KEYS[1]
local now, nanos, caller_time = 0, 0, ARGV[2]
if caller_time then
  now, nanos = struct.unpack('<dd', caller_time)
else
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
end
local cost, room, margin, parameters = struct.unpack('<dddd', ARGV[1])
local value, ahead, expires, clamped = call('GET', key), 0, 0, false
if value then
  if #value ~= FLOW_SIZE then
    return redis.error_reply(FOREIGN_PROGRAM)
  end
  local at, mark, stored_expiry = struct.unpack('<ddd', value)
  ahead, expires = (at - now) * 1000 - nanos, stored_expiry
  if mark ~= parameters then
    if not (mark >= MARK_FIRST and mark < MARK_END) then
      return redis.error_reply(FOREIGN_VERSION)
    end
    local low = mark % MARK_DIGEST
    local overdrawn = low % 2
    ahead = ahead + (low - overdrawn) / 2
    -- Under changed parameters an exhausted bucket stays exhausted, but for no longer than it takes to fill now.
    if mark - low ~= parameters and overdrawn == 0 and ahead > room then
      ahead, clamped = room, true
    end
  end
  if ahead < 0 then
    ahead = 0
  end
end
local used = ahead + cost
if used > room then
  -- A denial writes nothing, except for a clamped state, which is stored under the current parameters.
  if not clamped then
    return ahead < 2 ^ 52 and ahead or { now, nanos, value }
  end
  used = room
end
used = used + nanos
local rest = used % 1000
local at = now + (used - rest) / 1000
local needed = (at - at % 1000) / 1000 + 1 + margin
if caller_time then
  -- The key expires by the server's clock, whose difference to the caller's is unknown.
  call('PSETEX', key, needed - (now - now % 1000) / 1000, struct.pack('<ddd', at, parameters + rest * 2, 0))
elseif needed <= expires then
  -- A write that keeps the time-to-live costs half as much. It is set with twice the margin, so that later writes can.
  call('SETRANGE', key, '0', struct.pack('<ddd', at, parameters + rest * 2, expires))
else
  expires = needed + margin
  call('PSETEX', key, expires - (now - now % 1000) / 1000, struct.pack('<ddd', at, parameters + rest * 2, expires))
end
return ahead
