-- The start of the short scripts, which decide plain takes: check.lua one of them, takes.lua a batch.
--
-- A file of an algorithm defines in `takes` or `steps`, under the algorithm's code, how a take changes a stored value.
-- That is all: the reply has the states before the takes, and the caller derives the decisions from them with core's
-- function. Whatever is unusual (a value of another version, numbers that are not exact) is left to the general script.
--
--   takes[code](value, count, cost, block, ...)   decides `count` equal takes on a value (false: there is none), under a
--          limit with a block time (0: none) and other parameters. Returns how many pass, and if something changes the
--          command that writes it with the argument before the value, and the value: PSETEX and the time-to-live in
--          milliseconds, or SETRANGE and the offset. Returns nil to leave it to the general script.
--
-- Spans are relative to now, in nanoseconds, and exact up to 2^52, which is 52 days.
--
-- ARGV[1]  '<d'   the expiry margin in milliseconds; then the script's own input
-- ARGV[2]  '<dd'  the caller's time in microseconds and nanoseconds, if the caller's clock decides

-- The codes of what is taken from.
local FLOW, BLOCKING_FLOW, INTERVAL_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_COUNTER = 1, 2, 3, 4, 5, 6
local call, unpack_list, unpack, pack = redis.call, unpack, struct.unpack, struct.pack
local takes, steps, take_fields, EXACT = {}, {}, nil, 2 ^ 52
local input, now, nanos, caller_time = ARGV[1], 0, 0, ARGV[2]
local margin, from = unpack('<d', input)
if caller_time then
  now, nanos = unpack('<dd', caller_time)
else
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
end
local now_millis = (now - now % 1000) / 1000

-- Returns how many of `count` equal takes fit.
local function fitting(room, count, cost)
  local fit = (room - room % cost) / cost
  if fit > count then
    return count
  elseif fit < 0 then
    return 0
  end
  return fit
end
