-- Instants as words (instant.lua), relative to now.

local BASE = 2 ^ 48
-- Both words of now. 2^48 nanoseconds are 281474976710 microseconds and 656 nanoseconds.
local now_high = (now - now % 281474976711) / 281474976711
local now_low = (now - now_high * 281474976710) * 1000 - now_high * 656 + nanos
if now_low >= BASE then
  now_high, now_low = now_high + 1, now_low - BASE
end

-- Returns both words of the instant a span after now.
local function words(span)
  local sum = now_low + span
  local low = sum % BASE
  return now_high + (sum - low) / BASE, low
end

-- Returns the time-to-live of a state that is fresh after a span, in milliseconds.
local function time_to_live(span)
  local rest = span % 1e6
  local ttl = (span - rest) / 1e6 + (rest > 0 and 1 or 0) + margin
  return ttl > 0 and ttl or 1
end
