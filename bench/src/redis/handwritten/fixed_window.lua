-- A fixed window that starts at whole multiples of its length: a counter that expires with its window.
--
-- KEYS[1]  the counter
-- ARGV     limit, length in milliseconds, cost
-- reply    allowed, remaining, milliseconds until the window ends
local limit, length, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local reset = length - (time[1] * 1000 + math.floor(time[2] / 1000)) % length
local used = tonumber(redis.call('GET', KEYS[1]) or 0)
if used + cost > limit then
  return { 0, limit - used, reset }
end
redis.call('INCRBY', KEYS[1], cost)
if used == 0 then
  redis.call('PEXPIRE', KEYS[1], reset)
end
return { 1, limit - used - cost, reset }
