-- What the algorithms share.
--
-- An algorithm is a table of functions, each a translation of the function of the same name in core:
--   set_up(limit)                     derives the limit's own fields from its words (optional)
--   decide(limit, body, now, ask)     returns the decision and the body after it; nil is a fresh body
--   denied(limit, body, now, ask)     returns the decision and the body after a denial that is counted; nil if it is
--                                     not (optional)
--   fresh_at(limit, body)             returns the instant from which on the body equals a fresh one
--   is_flow                           the body alone determines when it is fresh, whatever the parameters
--   read(text, from), write(body)     decode and encode a body
-- Where a body is too large to be read as a whole, instead of read and write:
--   load(limit, key)                  reads the state; nil if there is none
--   save(limit, key, before, state, ttl, now)   writes the differences
-- An ask has an action, a cost, an instant or a maximum wait (or nil), and a lease id (16 bytes).
-- Bodies, states and wide numbers are immutable.

-- The codes of the outcomes and of the actions.
local ALLOWED, DENIED, NEVER_FITS, LEASE_LOST = 1, 2, 3, 4
local TAKE, TAKE_UP_TO, DEBIT, REFUND, RESET, RENEW, RELEASE = 1, 2, 3, 4, 5, 6, 7

-- The codes of the algorithms.
local TOKEN_BUCKET, INTERVAL_BUCKET, LEAKY_METER, LEAKY_QUEUE, FIXED_WINDOW, SLIDING_LOG = 1, 2, 3, 4, 5, 6
local SLIDING_COUNTER, SLIDING_WINDOW, GCRA, SMOOTH_BURSTY, SMOOTH_WARMING_UP, CONCURRENCY = 7, 8, 9, 10, 11, 12

-- The id of a lease that cannot be renewed or released.
local ANONYMOUS = ('\0'):rep(16)

local algorithms = {}

local function check_version(version)
  if version ~= VERSION then
    error('TOLLGATE the stored value has version ' .. version .. ', this client reads version ' .. VERSION)
  end
end

-- Returns a copy of a body with some fields changed.
local function changed(body, changes)
  for name, value in pairs(body) do
    if changes[name] == nil then
      changes[name] = value
    end
  end
  return changes
end

-- Counters saturate where they would no longer be exact.
local function saturated(count)
  return math.min(count, 2 ^ 53 - 1)
end

-- Returns the start of the limit's window at an instant. Nearly everything in a call is decided at one instant, so it
-- is cached.
local function window_start(limit, now)
  if not rawequal(limit.start_at, now) then
    local _, rest = split(now, limit.period)
    limit.start, limit.start_at = now - rest, now
  end
  return limit.start
end

-- Returns the decision of an algorithm that counts: `used` of `count`.
local function counted(count, used, outcome, granted, wait, reset)
  return {
    outcome = outcome, granted = granted, left = of(math.abs(count - used)), minus = used > count,
    wait = wait, reset = reset,
  }
end

-- Returns the part of a cost that is available, but at least 1, so that a denial has a waiting time.
local function part_of(cost, available)
  return math.max(math.min(cost, math.max(available, 0)), math.min(cost, 1))
end

-- Decides a take or a peek where `used` of `count` is used. Returns the outcome, what is granted, and the cost it was
-- decided for.
local function admission(count, used, ask)
  local cost = 0
  if ask.action == TAKE then
    cost = ask.cost
  elseif ask.action == TAKE_UP_TO then
    cost = part_of(ask.cost, count - used)
  end
  local asked = math.max(cost, 1)
  if asked > count then
    return NEVER_FITS, 0, asked
  elseif used + asked > count then
    return DENIED, 0, asked
  end
  return ALLOWED, cost, asked
end
