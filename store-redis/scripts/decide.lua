-- Decides the runs of one call, in order, each all or nothing: core's State and settle, on stored states.
--
-- KEYS[i]  the states and the idempotency records of the call
-- ARGV[1]  '>I2I6 I4 I4 I2 I2 B'  the caller's time (all ones: the server's clock decides), the expiry margin and the
--                 retention of idempotency records in milliseconds, the number of limits and of runs, and whether to
--                 return states instead of decisions (of one run); then
--          a limit   '>B B I4 I4 I2 I2I6 I2I6 B'  algorithm, flags, count, capacity, digest, period, block time, and
--                 the number of the algorithm's own words, each '>I2I6'
--          a run     '>I2 I4 I2'  the key of its idempotency record (0: none), its count, the number of charges; and
--          a charge  '>I2 I2 B I4 B I2I6 c16'  limit, key, action, cost, whether the next word is set, the instant or
--                 the maximum wait, lease id
-- reply    '>I2I6' the time of the decisions, then for each run a byte: 0, and every decision of every repetition as
--          '>B I4 B I2I6 I2I6 I2I6' (outcome, granted, whether left is negative, left, wait, reset);
--          or 1, and an error message, preceded by its length as '>I2';
--          when states are returned: a list of all this, without decisions, and of the value of each state; nil in
--          place of one that is so long that it has to be read by a call of its own

local call, unpack, pack = redis.call, struct.unpack, struct.pack
-- The flag of a limit that blocks a key after a denial. The lower flags are the algorithm's own.
local BLOCKS = 128
-- The bytes of a decision in the reply.
local DECISION_SIZE = 30
local input, at = ARGV[1], 1

local function word()
  local h, l
  h, l, at = unpack('>I2I6', input, at)
  return wide(h, l)
end

local now = word()
local margin, retention, limit_count, run_count, returns_states
margin, retention, limit_count, run_count, returns_states, at = unpack('>I4I4I2I2B', input, at)
returns_states = returns_states == 1
if END_OF_TIME < now then
  local time = call('TIME')
  now = instant_of(time[1] + 0, time[2] * 1000)
end

local limits = {}
for i = 1, limit_count do
  local limit, count = { words = {} }, 0
  limit.kind, limit.flags, limit.count, limit.capacity, limit.digest, at = unpack('>BBI4I4I2', input, at)
  limit.period, limit.block = word(), word()
  count, at = unpack('B', input, at)
  for j = 1, count do
    limit.words[j] = word()
  end
  limit.blocks = limit.flags >= BLOCKS
  limit.flags = limit.flags % BLOCKS
  limit.rules = algorithms[limit.kind]
  if limit.rules.set_up then
    limit.rules.set_up(limit)
  end
  limits[i] = limit
end

-- A state is { body, blocked, fresh }: the algorithm's own state, until when the key is blocked, and from when on all
-- of it equals a fresh state under the parameters that the limit had when it was written.
local FRESH = { blocked = ZERO, fresh = ZERO }

local function new_state(limit, body, blocked)
  local fresh = body and limit.rules.fresh_at(limit, body) or ZERO
  return { body = body, blocked = blocked, fresh = most(fresh, blocked) }
end

-- Returns whether a state equals a fresh one. A flow determines that from its TAT, so its state is always passed on.
local function is_fresh(limit, state)
  return state.fresh <= now and not limit.rules.is_flow
end

-- Returns an algorithm's decision, denied by the block.
local function while_blocked(state, decision)
  local block = state.blocked - now
  local wait = decision.outcome == DENIED and most(decision.wait, block) or block
  return {
    outcome = DENIED, granted = 0, left = decision.minus and decision.left or ZERO, minus = decision.minus,
    wait = wait, reset = most(decision.reset, block),
  }
end

-- Decides a peek. Returns the algorithm's body as it would be then, too.
local function peek(limit, state, ask)
  local body = nil
  if not is_fresh(limit, state) then
    body = state.body
  end
  local zero_cost = { action = ask.action, cost = 0, instant = ask.instant, lease = ask.lease }
  local decision, after = limit.rules.decide(limit, body, now, zero_cost)
  if now < state.blocked then
    return while_blocked(state, decision), after
  end
  return decision, after
end

local function with(decision, outcome, wait)
  return {
    outcome = outcome, granted = decision.granted, left = decision.left, minus = decision.minus,
    wait = wait, reset = decision.reset,
  }
end

-- Decides one charge. A denial is not counted yet.
local function decide_charge(limit, state, ask)
  local takes = ask.action == TAKE or ask.action == TAKE_UP_TO
  if takes and ask.cost == 0 then
    local decision, body = peek(limit, state, ask)
    -- The only change that a peek makes: the TAT of a limit that became faster starts to count down.
    if limit.rules.is_flow and decision.outcome == DENIED and body ~= state.body then
      return decision, new_state(limit, body, state.blocked)
    end
    return decision, state
  end
  local before = state
  if is_fresh(limit, state) then
    state = FRESH
  end
  if takes and now < state.blocked then
    -- The wait is that of the block, or of the same charge without a block, the longer one.
    local unblocked = limit.rules.decide(limit, state.body, now, ask)
    local current, body = peek(limit, state, ask)
    -- Nothing is debited, but the body is that of the current parameters, as after any other denial: a TAT that is
    -- clamped starts to count down, also where the algorithm alone would allow the take.
    if limit.rules.is_flow then
      body = select(2, limit.rules.decide(limit, body, now, { action = REFUND, cost = 0 }))
    end
    local after = new_state(limit, body, state.blocked)
    if body ~= state.body or after.fresh ~= state.fresh then
      state = after
    end
    if unblocked.outcome == DENIED then
      return with(current, DENIED, most(current.wait, unblocked.wait)), state
    elseif unblocked.outcome == ALLOWED then
      return with(current, current.outcome, state.blocked - now), state
    end
    return with(current, unblocked.outcome, ZERO), state
  end
  local blocked = ask.action == RESET and ZERO or state.blocked
  local decision, body = limit.rules.decide(limit, state.body, now, ask)
  local is_empty_debit = ask.action == DEBIT and ask.cost == 0
  if blocked <= now then
    if is_empty_debit then
      return decision, before
    elseif limit.rules.is_flow and body == state.body and blocked == state.blocked then
      return decision, state
    end
    return decision, { body = body, blocked = blocked, fresh = least(now + decision.reset, END_OF_TIME) }
  end
  -- A block that continues is a part of the state.
  decision = with(decision, decision.outcome, decision.wait)
  decision.reset = most(decision.reset, blocked - now)
  return decision, is_empty_debit and before or new_state(limit, body, blocked)
end

-- Applies a denial that this limit itself caused: it may be counted, and it may block.
local function denied(limit, state, ask, decision)
  local is_take = ask.cost > 0 and (ask.action == TAKE or ask.action == TAKE_UP_TO)
  if not is_take or decision.outcome ~= DENIED or now < state.blocked then
    return decision, state
  end
  local body, blocked = state.body, state.blocked
  if limit.rules.denied then
    local counted_decision, after = limit.rules.denied(limit, body, now, ask)
    if counted_decision then
      decision, body = counted_decision, after
    end
  end
  if not limit.blocks then
    if limit.rules.is_flow and body == state.body then
      return decision, state
    end
    return decision, new_state(limit, body, blocked)
  end
  state = new_state(limit, body, least(now + limit.block, END_OF_TIME))
  return while_blocked(state, decision), state
end

-- The states of the call, by key: as loaded, as they are now, and the limits that own them.
local loaded, states, owners = {}, {}, {}

local function read_value(limit, key)
  local text = call('GET', key)
  if not text then
    return nil
  end
  local version, h, l, from = unpack('>BI2I6', text)
  check_version(version)
  local fresh, blocked, has_body = wide(h, l), ZERO, 1
  if limit.blocks then
    h, l, has_body, from = unpack('>I2I6B', text, from)
    blocked = wide(h, l)
  end
  local body = has_body == 1 and limit.rules.read(text, from) or nil
  return { body = body, blocked = blocked, fresh = fresh }, text
end

local function value_of(limit, state)
  if not state.body and state.blocked <= now then
    return nil
  end
  local text = pack('>BI2I6', VERSION, state.fresh[1], state.fresh[2])
  if limit.blocks then
    text = text .. pack('>I2I6B', state.blocked[1], state.blocked[2], state.body and 1 or 0)
  end
  return state.body and text .. limit.rules.write(state.body) or text
end

local function state_of(limit, key)
  if not states[key] then
    local state, text
    if limit.rules.load then
      state = limit.rules.load(limit, KEYS[key])
    else
      state, text = read_value(limit, KEYS[key])
    end
    loaded[key] = { state = state, text = text }
    states[key] = state or FRESH
  end
  owners[key] = limit
  return states[key]
end

-- Returns the time-to-live of a state in milliseconds, rounded up. It must not be zero.
local function time_to_live(fresh)
  local seconds, nanos = seconds_of(fresh - now)
  return math.max(seconds * 1000 + math.ceil(nanos / 1e6) + margin, 1)
end

local function save(key)
  local limit, state, before = owners[key], states[key], loaded[key]
  if state == (before.state or FRESH) then
    return
  end
  if limit.rules.save then
    limit.rules.save(limit, KEYS[key], before.state, state, time_to_live(state.fresh), now)
    return
  end
  local text = value_of(limit, state)
  if text == before.text then
    return
  elseif text then
    call('SET', KEYS[key], text, 'PX', time_to_live(state.fresh))
  else
    call('DEL', KEYS[key])
  end
  before.text = text
end

-- The most bytes of a value that is returned. Lua takes a millisecond for 700 thousand.
local MAX_VALUE = 2 ^ 15

-- Returns the stored value of a key once everything is saved; false if it is too long.
local function stored_value(key)
  if loaded[key] and not owners[key].rules.save then
    return loaded[key].text or ''
  end
  local text = call('GETRANGE', KEYS[key], 0, MAX_VALUE)
  return #text <= MAX_VALUE and text
end

-- Tries charges on one state at an instant, one after the other. Returns the longest wait; zero if all pass. Returns
-- nil if one of them can never pass.
local function try_all(charges, state, at)
  local present, longest = now, ZERO
  now = at
  for _, charge in ipairs(charges) do
    local decision
    decision, state = decide_charge(charge.limit, state, charge)
    if decision.outcome == DENIED then
      longest = most(longest, most(decision.wait, of(1)))
      -- The charges behind it have to wait for it, too. Leases cannot be debited.
      if charge.limit.kind ~= CONCURRENCY then
        local cost = charge.action == TAKE_UP_TO and 1 or charge.cost
        local _, debited = decide_charge(charge.limit, state, { action = DEBIT, cost = cost, lease = ANONYMOUS })
        state = debited
      end
    elseif decision.outcome ~= ALLOWED then
      longest = nil
      break
    end
  end
  now = present
  return longest
end

-- How many instants are tried before the one at which the state is fresh.
local MAX_TRIES = 8

-- Returns after what time charges of one state pass together; nil if they never do.
local function wait_for_all(charges, state)
  -- A state has no more room than a fresh one. What is dated counts less the later it is.
  local is_dated = false
  for _, charge in ipairs(charges) do
    is_dated = is_dated or ((charge.action == DEBIT or charge.action == REFUND) and charge.instant ~= nil)
  end
  if not is_dated and try_all(charges, FRESH, now) ~= ZERO then
    return nil
  end
  local at = now
  for tries = 0, MAX_TRIES do
    if tries == MAX_TRIES then
      at = most(at, state.fresh)
    end
    local wait = try_all(charges, state, at)
    if not wait or wait == ZERO then
      return wait and at - now
    end
    at = least(at + wait, END_OF_TIME)
  end
  return nil
end

-- Corrects when a retry makes sense for the denied ones of several charges that share a state: all of them have to pass
-- together.
local function retry_together(charges, decisions)
  local sharing = {}
  for i, charge in ipairs(charges) do
    local group = sharing[charge.key] or { charges = {}, denied = {}, renews = false }
    sharing[charge.key] = group
    group.renews = group.renews or charge.action == RENEW
    group.charges[#group.charges + 1] = charge
    if decisions[i].outcome == DENIED then
      group.denied[#group.denied + 1] = i
    end
  end
  for key, group in pairs(sharing) do
    -- A lease that is held now may have expired by then, and others may be released at any time.
    if #group.charges > 1 and #group.denied > 0 and not group.renews then
      local wait = wait_for_all(group.charges, states[key])
      for _, i in ipairs(group.denied) do
        decisions[i] = with(decisions[i], wait and DENIED or NEVER_FITS, wait or ZERO)
      end
    end
  end
end

-- Decides charges, all or none. Returns the decisions, and whether they were denied.
local function settle(charges)
  local decisions, before, is_denied = {}, {}, false
  for i, charge in ipairs(charges) do
    before[i] = states[charge.key]
  end
  for i, charge in ipairs(charges) do
    decisions[i], states[charge.key] = decide_charge(charge.limit, states[charge.key], charge)
    is_denied = is_denied or decisions[i].outcome ~= ALLOWED
  end
  if not is_denied then
    return decisions
  end
  if #charges == 1 then
    local charge = charges[1]
    decisions[1], states[charge.key] = denied(charge.limit, states[charge.key], charge, decisions[1])
    return decisions, true
  end
  for i, charge in ipairs(charges) do
    states[charge.key] = before[i]
  end
  for i, charge in ipairs(charges) do
    if decisions[i].outcome == ALLOWED then
      -- It would have passed, but nothing is debited: return the current state.
      local current = peek(charge.limit, before[i], { action = TAKE, lease = ANONYMOUS })
      current = with(current, ALLOWED, decisions[i].wait)
      current.granted = 0
      decisions[i] = current
    else
      if charge.limit.rules.is_flow then
        -- Starts the clock of a clamped TAT, as the denial of a single charge does.
        local _, after = decide_charge(charge.limit, states[charge.key], { action = TAKE, cost = 0, lease = ANONYMOUS })
        states[charge.key] = after
      end
      decisions[i], states[charge.key] = denied(charge.limit, states[charge.key], charge, decisions[i])
    end
  end
  retry_together(charges, decisions)
  return decisions, true
end

local function read_charges(count)
  local charges = {}
  for i = 1, count do
    local limit, key, action, cost, has_instant, h, l, lease
    limit, key, action, cost, has_instant, h, l, lease, at = unpack('>I2I2BI4BI2I6c16', input, at)
    charges[i] = {
      limit = limits[limit], key = key, action = action, cost = cost,
      instant = has_instant == 1 and wide(h, l) or nil, lease = lease,
    }
  end
  return charges
end

-- Decides a run. Returns its part of the reply, and whether it has changed a state.
local function decide(charges, run_length)
  for _, charge in ipairs(charges) do
    charge.before = state_of(charge.limit, charge.key)
  end
  local parts, is_taken = { '\0' }, false
  for _ = 1, run_length do
    local decisions, is_denied = settle(charges)
    is_taken = is_taken or not is_denied
    for _, decision in ipairs(returns_states and {} or decisions) do
      local left, wait, reset = decision.left, decision.wait, decision.reset
      parts[#parts + 1] = pack('>BI4BI2I6I2I6I2I6', decision.outcome, decision.granted, decision.minus and 1 or 0,
        left[1], left[2], wait[1], wait[2], reset[1], reset[2])
    end
  end
  local changed = false
  for _, charge in ipairs(charges) do
    -- A denial matters only if it is counted or blocks. Otherwise it needs no idempotency record.
    local matters = is_taken or charge.limit.blocks or charge.limit.rules.denied
    changed = changed or (matters and states[charge.key] ~= charge.before)
  end
  return table.concat(parts), changed
end

local function failure(problem)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  return '\1' .. pack('>I2', #text) .. text
end

-- Decides a run. If that fails, returns the error and restores the states.
local function attempt(charges, run_length)
  local present = now
  local ok, result, changed = pcall(decide, charges, run_length)
  if ok then
    return result, changed
  end
  now = present
  for _, charge in ipairs(charges) do
    states[charge.key] = charge.before or states[charge.key]
  end
  return failure(result), false
end

-- Returns the recorded result of a repeated request, if it has the same number of decisions.
local function repeated(record, decisions)
  if record.err then
    return failure(record)
  elseif returns_states then
    return '\0'
  end
  local states = record:byte() == STATES and unpack('<I2', record, 2)
  if states ~= decisions and #record ~= 1 + DECISION_SIZE * decisions then
    return failure('TOLLGATE the idempotency key was used for another request')
  end
  return record
end

-- Records by key, and the key of the last run's record.
local reply, records = { pack('>I2I6', now[1], now[2]) }, {}
local record_key = 0
for i = 1, run_count do
  local run_length, count
  record_key, run_length, count, at = unpack('>I2I4I2', input, at)
  local charges = read_charges(count)
  local record = record_key > 0 and (records[record_key] or redis.pcall('GET', KEYS[record_key]))
  if record then
    reply[i + 1] = repeated(record, run_length * count)
  else
    local result, changed = attempt(charges, run_length)
    if changed and record_key > 0 then
      records[record_key] = result
    end
    reply[i + 1] = result
  end
end
for key in pairs(loaded) do
  save(key)
end
for key, result in pairs(records) do
  call('SET', KEYS[key], result, 'PX', retention)
end
if returns_states then
  local values = { table.concat(reply) }
  for key = 1, reply[2] == '\0' and #KEYS or 0 do
    if key ~= record_key then
      values[#values + 1] = stored_value(key)
    end
  end
  return values
end
return table.concat(reply)
