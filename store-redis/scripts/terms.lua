-- What every algorithm speaks of.
--
-- An algorithm is a table of functions, pure translations of those of core, named alike:
--   set_up(limit)                     names the limit's own words (optional)
--   decide(limit, body, now, ask)     the decision, and the body after it; nil is a fresh one
--   denied(limit, body, now, ask)     the decision after a denial that counts, and the body (optional; nil: it does not)
--   fresh_at(limit, body)             from when on the body equals a fresh one
--   is_flow                           the body alone says when it is past, under any numbers
--   read(text, from), write(body)     how a body is kept in the state's value
--   book(limit, text, now, ask)       what a debit makes of a value (false: there is none), and from when on that equals a
--                                     fresh one; nothing if it takes more than that (optional)
-- or, where a body is too large to be read as a whole, instead of the last two
--   load(limit, key)                  the state that the server has; nil if there is none
--   save(limit, key, before, state, ttl, now)   writes what differs
-- An ask has an action, a cost, the instant that it names or the longest wait (or nil), and a lease (16 bytes).
-- Bodies, states and wide numbers are never changed once they are made.

local ALLOWED, DENIED, NEVER_FITS, LEASE_LOST = 1, 2, 3, 4
local TAKE, TAKE_UP_TO, DEBIT, REFUND, FORGET, RENEW, RELEASE = 1, 2, 3, 4, 5, 6, 7

-- A lease that nobody can name.
local ANONYMOUS = ('\0'):rep(16)

local algorithms = {}

-- The version of what is stored. Programs of different versions can share a server for the time of an upgrade.
local VERSION = 1

local function check_version(version)
  if version ~= VERSION then
    error('TOLLGATE a state of version ' .. version .. ' was found, and only version ' .. VERSION .. ' is understood')
  end
end

-- A body with some fields changed.
local function changed(body, changes)
  for name, value in pairs(body) do
    if changes[name] == nil then
      changes[name] = value
    end
  end
  return changes
end

-- Counters stop where they would no longer be exact.
local function saturated(count)
  return math.min(count, 2 ^ 53 - 1)
end

-- When the window of a limit began that now lies in. Everything in a call is decided at one instant.
local function window_start(limit, now)
  if not limit.start then
    local _, rest = split(now, limit.period)
    limit.start = now - rest
  end
  return limit.start
end

-- The decision of an algorithm that counts: `used` of `count`.
local function counted(count, used, outcome, granted, wait, reset)
  return { outcome = outcome, granted = granted, left = of(math.abs(count - used)), minus = used > count, wait = wait, reset = reset }
end

-- As much of what is asked for as is there, and at least one of it, which says how long it will be.
local function part_of(cost, there)
  return math.max(math.min(cost, math.max(there, 0)), math.min(cost, 1))
end

-- What becomes of an ask that is neither a debit, nor a refund, nor a forget, where `used` of `count` is: the outcome, what is
-- granted, and what it would take.
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
