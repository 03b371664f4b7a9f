-- A sliding window of equal parts, each a counter.
--
-- KEYS[1]  a hash: the number of a part to its count
-- ARGV     limit, length of a part in milliseconds, number of parts, cost
-- reply    allowed, remaining
local limit, length, parts, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local part = math.floor((time[1] * 1000 + math.floor(time[2] / 1000)) / length)
local counts, used = redis.call('HGETALL', KEYS[1]), 0
for index = 1, #counts, 2 do
  if tonumber(counts[index]) > part - parts then
    used = used + counts[index + 1]
  else
    redis.call('HDEL', KEYS[1], counts[index])
  end
end
if used + cost > limit then
  return { 0, limit - used }
end
redis.call('HINCRBY', KEYS[1], part, cost)
redis.call('PEXPIRE', KEYS[1], length * parts)
return { 1, limit - used - cost }
