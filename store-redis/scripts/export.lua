-- Reads a stored state.
--
-- KEYS[1]  the state
-- ARGV[1]  '1' if it is a sorted set
-- reply    a list of '>I2I6', the server's time in nanoseconds, and the value, or the members, each preceded by its
--          length as '>I2'; empty if there is no state. A list, because a value can be long, and Lua would copy it

local time = redis.call('TIME')
local now = struct.pack('>I2I6', instant_words(time[1] + 0, time[2] * 1000))
if ARGV[1] ~= '1' then
  return { now, redis.call('GET', KEYS[1]) or '' }
end
local parts = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  parts[#parts + 1] = struct.pack('>I2', #member) .. member
end
return { now, table.concat(parts) }
