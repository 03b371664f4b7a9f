-- Reads a state as it is.
--
-- KEYS[1]  the state; ARGV[1]  '1' if it is a sorted set
-- reply    '>I2I6' the server's time, then nothing if there is no state, or its value, or its members as '>I2' and bytes

local time = redis.call('TIME')
local low = time[1] % 65536
local high = (time[1] - low) / 65536 * 1e9
local part = high % 2 ^ 32
local l = part * 65536 + low * 1e9 + time[2] * 1000
local rest = l % 2 ^ 48
local reply = struct.pack('>I2I6', (high - part) / 2 ^ 32 + (l - rest) / 2 ^ 48, rest)
if ARGV[1] ~= '1' then
  return reply .. (redis.call('GET', KEYS[1]) or '')
end
local parts = { reply }
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  parts[#parts + 1] = struct.pack('>I2', #member) .. member
end
return table.concat(parts)
