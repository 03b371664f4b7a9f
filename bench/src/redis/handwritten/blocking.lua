-- A bucket whose key stays denied for a time once it was denied.
--
-- KEYS[1]  'TAT blocked-until', in microseconds
-- ARGV     units at a time, period in microseconds and the units per period, cost, block time in microseconds
-- reply    allowed, remaining, microseconds to wait
local capacity, each, cost, block = tonumber(ARGV[1]), ARGV[2] / ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat, blocked = 0, 0
local value = redis.call('GET', KEYS[1])
if value then
  local stored_tat, stored_blocked = string.match(value, '(%S+) (%S+)')
  tat, blocked = tonumber(stored_tat), tonumber(stored_blocked)
end
if blocked > now then
  return { 0, 0, blocked - now }
end
tat = math.max(tat, now)
local remaining = capacity - (tat - now) / each
local allowed = remaining >= cost
if allowed then
  tat, blocked, remaining = tat + cost * each, 0, remaining - cost
else
  blocked, remaining = now + block, 0
end
local lives = math.ceil((math.max(tat, blocked) - now) / 1000)
redis.call('SET', KEYS[1], string.format('%.3f %.0f', tat, blocked), 'PX', lives)
return { allowed and 1 or 0, math.floor(remaining), math.max(blocked - now, 0) }
