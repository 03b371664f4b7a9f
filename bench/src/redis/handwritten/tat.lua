-- Everything whose state is one theoretical arrival time (TAT): buckets at any rate, queues, smooth limiters.
--
-- KEYS[1]  the TAT in microseconds
-- ARGV     units at a time, period in microseconds and the units per period, cost
-- reply    allowed, remaining, microseconds to wait
local capacity, each, cost = tonumber(ARGV[1]), ARGV[2] / ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local remaining = capacity - (tat - now) / each
if remaining < cost then
  return { 0, math.floor(remaining), math.ceil((cost - remaining) * each) }
end
local ahead = tat - now + cost * each
redis.call('SET', KEYS[1], string.format('%.3f', now + ahead), 'PX', math.ceil(ahead / 1000))
return { 1, math.floor(remaining - cost), tat - now }
