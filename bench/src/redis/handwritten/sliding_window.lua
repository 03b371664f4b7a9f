-- A sliding window by two counters: the previous one counts by how much of it the window still covers.
--
-- KEYS[1]  the prefix of the counters, to which the number of the window is added
-- ARGV     limit, length in milliseconds, cost
-- reply    allowed, remaining
local limit, length, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window = math.floor(now / length)
local current = KEYS[1] .. ':' .. window
local used = tonumber(redis.call('GET', current) or 0)
local previous = tonumber(redis.call('GET', KEYS[1] .. ':' .. (window - 1)) or 0)
local weighted = used + math.floor(previous * (1 - now % length / length))
if weighted + cost > limit then
  return { 0, math.max(limit - weighted, 0) }
end
redis.call('INCRBY', current, cost)
if used == 0 then
  redis.call('PEXPIRE', current, 2 * length)
end
return { 1, limit - weighted - cost }
