-- A bucket that is refilled at once each interval: what is left, and when the interval started.
--
-- KEYS[1]  'left start'
-- ARGV     limit, interval in milliseconds, cost
-- reply    allowed, remaining
local limit, interval, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left, start = limit, now
local value = redis.call('GET', KEYS[1])
if value then
  local stored_left, stored_start = string.match(value, '(%d+) (%d+)')
  start = tonumber(stored_start)
  if now < start + interval then
    left = tonumber(stored_left)
  else
    start = now - (now - start) % interval
  end
end
if cost > left then
  return { 0, left }
end
redis.call('SET', KEYS[1], (left - cost) .. ' ' .. start, 'PX', start + interval - now)
return { 1, left - cost }
