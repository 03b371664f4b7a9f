-- Constants of the stored format, shared by all scripts that read or write states.
--
-- A client rejects values of any other version, so that two versions can share a server during an upgrade.
local VERSION = 1

-- The value of a continuous flow (token bucket, leaky bucket, GCRA, smooth bursty):
--   '<ddd'   the theoretical arrival time (TAT) in microseconds; the mark; when the key expires by the server's clock,
--            in milliseconds, or 0 if that is unknown
--   '>I2I6'  until when the key is blocked, if the limit blocks
-- The mark is version * 2^27 + digest of the parameters * 2^11 + nanoseconds of the TAT * 2 + overdrawn. Doubles are
-- what Lua reads and writes fastest, and a whole mark can be compared at once. src/flow_value.rs has the same format.
local FLOW_SIZE = 24
local MARK_VERSION, MARK_DIGEST = 2 ^ 27, 2 ^ 11
-- The marks of this version: MARK_FIRST <= mark < MARK_END. Literals, which Lua computes when it compiles the script.
local MARK_FIRST, MARK_END = 1 * 2 ^ 27, 2 * 2 ^ 27

local FOREIGN_PROGRAM = 'TOLLGATE the stored value was written by another program'
local FOREIGN_VERSION = 'TOLLGATE the stored value was written by another version'

-- The last byte of a sliding log that a take reads: the header, and 64 entries. A string, because converting a number
-- to an argument of a command takes a twentieth of a check.
local LOG_START = '1007'

-- The first byte of an idempotency record: 0 and every decision as in the reply of decide.lua; or 2 and the states before
-- the request, '<I2dd' their number and the time in microseconds and nanoseconds, and each preceded by its length, '<I4'.
local STATES = 2
