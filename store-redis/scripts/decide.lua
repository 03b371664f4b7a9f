-- Decides the runs of one call, in order, each all or nothing: what core's State and settle do, on what the server has.
--
-- KEYS[i]  the states that the call touches, and the operations that it names
-- ARGV[1]  '>I2I6 I4 I4 I2 I2 B'  the caller's time (all ones: the server's own), the margin of a time-to-live and how long an
--                               operation is remembered in milliseconds, how many limits and how many runs follow, and
--                               whether states are told instead of decisions (of one run)
--          a limit:  '>B B I4 I4 I2 I2I6 I2I6 B'  kind, flags, count, capacity, digest, period, block time, and how many
--                               words of its algorithm follow, each '>I2I6'
--          a run:    '>I2 I4 I2'  the key of its operation (0: none), how often, how many charges follow
--          a charge: '>I2 I2 B I4 B I2I6 c16'  limit, key, action, cost, whether the next counts, the instant or the
--                               longest wait, lease
-- reply    '>I2I6' the time of the decisions, then for each run a byte: 0, and every decision of every repetition as
--          '>B I4 B I2I6 I2I6 I2I6' (outcome, granted, whether left is negative, left, wait, reset);
--          or 1, and what is wrong as '>I2' bytes;
--          if states are told, 0 without decisions, and then the value of each state as '>I4' bytes

local call, unpack, pack = redis.call, struct.unpack, struct.pack
-- The flag of a limit that blocks whom it denies; the others are the algorithm's own.
local BLOCKS = 128
local input, at = ARGV[1], 1

local function word()
  local h, l
  h, l, at = unpack('>I2I6', input, at)
  return wide(h, l)
end

local now = word()
local margin, memory, limit_count, run_count, exchanges
margin, memory, limit_count, run_count, exchanges, at = unpack('>I4I4I2I2B', input, at)
exchanges = exchanges == 1
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

-- A state is { body, blocked, fresh }: the algorithm's own, until when the key is blocked, and from when on all of it
-- equals a fresh state under the numbers that the limit had then.
local FRESH = { blocked = ZERO, fresh = ZERO }

local function ending(limit, body, blocked)
  local fresh = body and limit.rules.fresh_at(limit, body) or ZERO
  return { body = body, blocked = blocked, fresh = most(fresh, blocked) }
end

-- The instant of a flow says by itself when it is past, under any numbers.
local function ended(limit, state)
  return state.fresh <= now and not limit.rules.is_flow
end

-- What the algorithm says, while a block lasts.
local function while_blocked(state, seen)
  local block = state.blocked - now
  local wait = seen.outcome == DENIED and most(seen.wait, block) or block
  local nothing = not seen.minus
  return {
    outcome = DENIED, granted = 0, left = nothing and ZERO or seen.left, minus = seen.minus,
    wait = wait, reset = most(seen.reset, block),
  }
end

-- Answers without changing anything.
local function look(limit, state, ask)
  local body = nil
  if not ended(limit, state) then
    body = state.body
  end
  local seen = limit.rules.decide(limit, body, now, { action = ask.action, cost = 0, instant = ask.instant, lease = ask.lease })
  if now < state.blocked then
    return while_blocked(state, seen)
  end
  return seen
end

local function with(decision, outcome, wait)
  return {
    outcome = outcome, granted = decision.granted, left = decision.left, minus = decision.minus,
    wait = wait, reset = decision.reset,
  }
end

-- Decides one charge; a denial has no consequences yet.
local function answer(limit, state, ask)
  local takes = ask.action == TAKE or ask.action == TAKE_UP_TO
  if takes and ask.cost == 0 then
    return look(limit, state, ask), state
  end
  local before = state
  if ended(limit, state) then
    state = FRESH
  end
  if takes and now < state.blocked then
    -- What the same charge would be told if there were no block decides how long it waits.
    local alone = limit.rules.decide(limit, state.body, now, ask)
    local seen = look(limit, state, ask)
    if alone.outcome == DENIED then
      return with(seen, DENIED, most(seen.wait, alone.wait)), state
    elseif alone.outcome == ALLOWED then
      return with(seen, seen.outcome, state.blocked - now), state
    end
    return with(seen, alone.outcome, ZERO), state
  end
  local blocked = ask.action == FORGET and ZERO or state.blocked
  local decision, body = limit.rules.decide(limit, state.body, now, ask)
  local nothing = ask.action == DEBIT and ask.cost == 0
  if blocked <= now then
    if nothing then
      return decision, before
    elseif limit.rules.is_flow and body == state.body and blocked == state.blocked then
      return decision, state
    end
    return decision, { body = body, blocked = blocked, fresh = least(now + decision.reset, END_OF_TIME) }
  end
  -- A block that goes on is a part of the state.
  decision = with(decision, decision.outcome, decision.wait)
  decision.reset = most(decision.reset, blocked - now)
  return decision, nothing and before or ending(limit, body, blocked)
end

-- A denial that this limit itself caused: it may count, and it may block.
local function denied(limit, state, ask, decision)
  local took = ask.cost > 0 and (ask.action == TAKE or ask.action == TAKE_UP_TO)
  if not took or decision.outcome ~= DENIED or now < state.blocked then
    return decision, state
  end
  local body, blocked = state.body, state.blocked
  if limit.rules.denied then
    local counting, after = limit.rules.denied(limit, body, now, ask)
    if counting then
      decision, body = counting, after
    end
  end
  if not limit.blocks then
    if limit.rules.is_flow and body == state.body then
      return decision, state
    end
    return decision, ending(limit, body, blocked)
  end
  state = ending(limit, body, least(now + limit.block, END_OF_TIME))
  return while_blocked(state, decision), state
end

-- The states that the call has met, by key: what the server had, and what it is now.
local loaded, states, owners = {}, {}, {}

local function read_value(limit, key)
  local text = call('GET', key)
  if not text then
    return nil
  end
  local version, h, l, from = unpack('>BI2I6', text)
  check_version(version)
  local fresh, blocked, there = wide(h, l), ZERO, 1
  if limit.blocks then
    h, l, there, from = unpack('>I2I6B', text, from)
    blocked = wide(h, l)
  end
  local body = there == 1 and limit.rules.read(text, from) or nil
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

-- In milliseconds, rounded up: when the server may forget a state. No server takes none at all.
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

-- Values that debits were booked on as they are, by key; false: there is none. And how long those live that differ from what the
-- server had.
local booked, lives = {}, {}

-- Books a run on the values themselves, where that is all it takes: an exchange tells many keys, and a state that is taken apart and put
-- together again for each of them would take most of its time. Whether it could, and whether it has changed anything.
local function book(charges)
  local texts, changes, life_until = {}, {}, {}
  for i = 1, #charges do
    local charge = charges[i]
    local limit, key = charge.limit, charge.key
    if not limit.rules.book or limit.blocks or charge.action ~= DEBIT then
      return false
    end
    local text = texts[key]
    if text == nil then
      text = call('GET', KEYS[key])
    end
    if charge.cost > 0 then
      local fresh
      text, fresh = limit.rules.book(limit, text, now, charge)
      if not text then
        return false
      end
      life_until[fresh] = life_until[fresh] or time_to_live(fresh)
      changes[key] = life_until[fresh]
    end
    texts[key] = text
  end
  booked, lives = texts, changes
  return true, next(changes) ~= nil
end

-- What the server has for a key once everything is saved.
local function kept(key)
  if booked[key] ~= nil then
    return booked[key] or ''
  elseif loaded[key] and not owners[key].rules.save then
    return loaded[key].text or ''
  end
  return call('GET', KEYS[key]) or ''
end

-- All charges or none. Says what is decided, and whether that is none.
local function settle(charges)
  local decisions, before, refused = {}, {}, false
  for i, charge in ipairs(charges) do
    before[i] = states[charge.key]
  end
  for i, charge in ipairs(charges) do
    decisions[i], states[charge.key] = answer(charge.limit, states[charge.key], charge)
    refused = refused or decisions[i].outcome ~= ALLOWED
  end
  if not refused then
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
      -- It had room, but nothing is debited: say what is there.
      local there = look(charge.limit, before[i], { action = TAKE, lease = ANONYMOUS })
      there = with(there, ALLOWED, decisions[i].wait)
      there.granted = 0
      decisions[i] = there
    else
      decisions[i], states[charge.key] = denied(charge.limit, states[charge.key], charge, decisions[i])
    end
  end
  return decisions, true
end

local function read_charges(count)
  local charges = {}
  for i = 1, count do
    local limit, key, action, cost, given, h, l, lease
    limit, key, action, cost, given, h, l, lease, at = unpack('>I2I2BI4BI2I6c16', input, at)
    charges[i] = {
      limit = limits[limit], key = key, action = action, cost = cost, instant = given == 1 and wide(h, l) or nil, lease = lease,
    }
  end
  return charges
end

local function decide(charges, times_over)
  if exchanges then
    local done, changed = book(charges)
    if done then
      return '\0', changed
    end
  end
  for _, charge in ipairs(charges) do
    charge.before = state_of(charge.limit, charge.key)
  end
  local parts, took = { '\0' }, false
  for _ = 1, times_over do
    local decisions, refused = settle(charges)
    took = took or not refused
    for _, told in ipairs(exchanges and {} or decisions) do
      parts[#parts + 1] = pack('>BI4BI2I6I2I6I2I6', told.outcome, told.granted, told.minus and 1 or 0, told.left[1], told.left[2],
        told.wait[1], told.wait[2], told.reset[1], told.reset[2])
    end
  end
  local changed = false
  for _, charge in ipairs(charges) do
    -- A denial changes something only where it has consequences. Otherwise it need not be remembered, and takes no memory.
    local counts = took or charge.limit.blocks or charge.limit.rules.denied
    changed = changed or (counts and states[charge.key] ~= charge.before)
  end
  return table.concat(parts), changed
end

local function failure(problem)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  return '\1' .. pack('>I2', #text) .. text
end

-- Decides a run, or says what is wrong with it and leaves everything as it was.
local function attempt(charges, times_over)
  local fine, answered, changed = pcall(decide, charges, times_over)
  if fine then
    return answered, changed
  end
  for _, charge in ipairs(charges) do
    states[charge.key] = charge.before or states[charge.key]
  end
  return failure(answered), false
end

-- What was answered the first time, if the request can be the same.
local function repeated(known, decisions)
  if known.err then
    return failure(known)
  elseif exchanges then
    return '\0'
  elseif #known ~= 1 + 30 * decisions then
    return failure('TOLLGATE the operation id was used for another request')
  end
  return known
end

local reply, operations = { pack('>I2I6', now[1], now[2]) }, {}
local operation = 0
for i = 1, run_count do
  local times_over, count
  operation, times_over, count, at = unpack('>I2I4I2', input, at)
  local charges = read_charges(count)
  local known = operation > 0 and (operations[operation] or redis.pcall('GET', KEYS[operation]))
  if known then
    reply[i + 1] = repeated(known, times_over * count)
  else
    local answered, changed = attempt(charges, times_over)
    if changed and operation > 0 then
      operations[operation] = answered
    end
    reply[i + 1] = answered
  end
end
for key in pairs(loaded) do
  save(key)
end
for key, life in pairs(lives) do
  call('SET', KEYS[key], booked[key], 'PX', life)
end
for operation, answered in pairs(operations) do
  call('SET', KEYS[operation], answered, 'PX', memory)
end
if exchanges and reply[2] == '\0' then
  for key = 1, #KEYS do
    if key ~= operation then
      local text = kept(key)
      reply[#reply + 1] = pack('>I4', #text) .. text
    end
  end
end
return table.concat(reply)
