-- Replaces a state, if it is still what it was.
--
-- KEYS[1]  the state
-- ARGV     '1' if it is a sorted set, what it was (as export.lua says it, without the time), its time-to-live in
--          milliseconds, and the new value or members
-- reply    '1' if it was replaced, '0' if somebody changed it meanwhile

local key, is_set = KEYS[1], ARGV[1] == '1'
local was
if is_set then
  local parts = {}
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    parts[#parts + 1] = struct.pack('>I2', #member) .. member
  end
  was = table.concat(parts)
else
  was = redis.call('GET', key) or ''
end
if was ~= ARGV[2] then
  return '0'
end
if is_set then
  redis.call('DEL', key)
  for i = 4, #ARGV do
    redis.call('ZADD', key, 0, ARGV[i])
  end
  redis.call('PEXPIRE', key, ARGV[3])
else
  redis.call('SET', key, ARGV[4], 'PX', ARGV[3])
end
return '1'
