-- Instants in nanoseconds, in two words that Lua's numbers hold exactly: high * 2^48 + low, '>I2I6' on the wire.

local BASE = 2 ^ 48

-- Returns both words of an instant given in seconds and nanoseconds.
local function instant_words(seconds, nanos)
  local low = seconds % 65536
  local high = (seconds - low) / 65536 * 1e9
  local part = high % 2 ^ 32
  local l = part * 65536 + low * 1e9 + nanos
  local rest = l % BASE
  return (high - part) / 2 ^ 32 + (l - rest) / BASE, rest
end

