-- What has one entry per hit or holder, each until it is too old: a sliding log, the leases of a concurrency limit.
--
-- KEYS[1]  a sorted set: identifiers by their time in microseconds
-- ARGV     limit, time to live of an entry in microseconds, identifier
-- reply    allowed, remaining
local limit, lives = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - lives)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then
  return { 0, 0 }
end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], math.ceil(lives / 1000))
return { 1, limit - used - 1 }
