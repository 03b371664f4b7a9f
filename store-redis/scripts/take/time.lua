-- The start of the short scripts: check.lua decides one plain take, takes.lua a batch of them, and deltas.lua applies
-- debits and refunds.
--
-- The files of the algorithms are blocks of statements that these scripts contain in place of their line `@take`,
-- because each function, and each variable that it uses from outside, would be created anew for every check. A block
-- decides how equal takes change a stored value, and nothing else: the reply has the values before the takes, and the
-- caller derives the decisions from them with core's function. What is unusual (a value of another version, a number
-- that is not exact) is left to the general script: the block ends with `passed` still nil. Lines from `@only takes` or
-- `@only deltas` to `@always` are in the blocks for one of them only.
--
--   in   value        the stored value (false: there is none)
--        count, cost  the number of equal takes, and what each costs
--        block        the block time of the limit (0: none)
--        a, b, c, d, e   other parameters of the limit
--   for deltas, in place of count and block:
--        cost         what a debit adds; negative for a refund
--        dated        the nanoseconds from now to the instant it belongs to (nil: none)
--   out  passed       how many pass
--        command, argument, after   the command that writes the changed value, with its argument before the value: PSETEX
--                     and the time-to-live in milliseconds, or SETRANGE and the offset (nil: nothing has changed); for
--                     deltas also DEL, without an argument
--        more         further commands, each a list without the key (an empty list: the block has called them itself)
--        before       the state before the takes, for the reply; the value if the block does not set it
--        ahead        the nanoseconds from now to the TAT, which the reply has instead for a flow with an even rate and
--                     without a block time
--
-- Spans are relative to now, in nanoseconds, and exact up to 2^52, which is 52 days.
--
-- ARGV[1]         the script's own input
-- ARGV[2]  '<dd'  the caller's time in microseconds and nanoseconds, if the caller's clock decides

local call, unpack_list, unpack, pack = redis.call, unpack, struct.unpack, struct.pack
local input, now, nanos, caller_time = ARGV[1], 0, 0, ARGV[2]
if caller_time then
  now, nanos = unpack('<dd', caller_time)
else
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
end
