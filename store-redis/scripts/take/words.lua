
-- Both words of now, for values with instants as in instant.lua. 2^48 nanoseconds are 281474976710 microseconds and 656
-- nanoseconds.
local now_high = (now - now % 281474976711) / 281474976711
local now_low = (now - now_high * 281474976710) * 1000 - now_high * 656 + nanos
if now_low >= 2 ^ 48 then
  now_high, now_low = now_high + 1, now_low - 2 ^ 48
end
