-- One take from one bucket, the check that nearly all are: at a rate of whole nanoseconds, no wait, no block. The same decision as flow.lua's, in less time; the caller works out what to tell.
--
-- KEYS[1]  the state, as flow.lua has it
-- ARGV[1]  '<dddd'  cost and room in nanoseconds, the margin of a time-to-live in milliseconds, the mark of the numbers
-- ARGV[2]  '<dd'    the caller's time in microseconds and nanoseconds, if it counts
-- reply    how many nanoseconds the bucket was away from full before; if a number cannot say that exactly, which only happens to
--          one that is overdrawn by far, the time in microseconds and nanoseconds and the state

local call, key = redis.call, KEYS[1]
local now, nanos, callers = 0, 0, ARGV[2]
if callers then
  now, nanos = struct.unpack('<dd', callers)
else
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
end
local cost, room, margin, numbers = struct.unpack('<dddd', ARGV[1])
local state, ahead, expires, clamped = call('GET', key), 0, 0, false
if state then
  if #state ~= 24 then
    return redis.error_reply('TOLLGATE what is stored was written by another program')
  end
  local at, mark, ends = struct.unpack('<ddd', state)
  ahead, expires = (at - now) * 1000 - nanos, ends
  if mark ~= numbers then
    if mark < 134217728 or mark >= 268435456 then
      return redis.error_reply('TOLLGATE what is stored was written by another version')
    end
    local low = mark % 2048
    local overdrawn = low % 2
    ahead = ahead + (low - overdrawn) / 2
    -- Under other numbers, whoever was out of tokens stays so, but no longer than these take to fill.
    if mark - low ~= numbers and overdrawn == 0 and ahead > room then
      ahead, clamped = room, true
    end
  end
  if ahead < 0 then
    ahead = 0
  end
end
local used = ahead + cost
if used > room then
  -- A denial writes nothing, except that the clock of a clamped state starts now.
  if not clamped then
    return ahead < 2 ^ 52 and ahead or { now, nanos, state }
  end
  used = room
end
used = used + nanos
local rest = used % 1000
local at = now + (used - rest) / 1000
local needed = (at - at % 1000) / 1000 + 1 + margin
if callers then
  -- The server's own clock ends it, and nobody knows how far that is from the caller's.
  call('PSETEX', key, needed - (now - now % 1000) / 1000, struct.pack('<ddd', at, numbers + rest * 2, 0))
elseif needed <= expires then
  -- To leave the time-to-live alone is half the price of a write. It is set with twice the margin, so that it can be.
  call('SETRANGE', key, '0', struct.pack('<ddd', at, numbers + rest * 2, expires))
else
  expires = needed + margin
  call('PSETEX', key, expires - (now - now % 1000) / 1000, struct.pack('<ddd', at, numbers + rest * 2, expires))
end
return ahead
