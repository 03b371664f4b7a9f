-- Token bucket, leaky buckets, GCRA and smooth bursty: a continuous flow, whose state is the instant at which it is full.
--
-- limit: period, token (units of one), room (units that fit), excess (nanoseconds of a period beyond its units), digest
-- body:  at, overdrawn, digest
-- value: '<ddd'   the instant in microseconds; the mark; when the key expires by the server's clock in milliseconds, or 0
--        '>I2I6'  until when the key is blocked, if the limit blocks
-- The mark is version * 2^27 + digest * 2^11 + nanoseconds of the instant * 2 + overdrawn. Doubles are what Lua reads and
-- writes fastest, and check.lua and take.lua, which share this value, compare a whole mark at once.

local FITS, IN_TURN, PAID = 1, 2, 3

local function view_of(limit, body, now)
  local present = units(limit, now)
  local view = { now = now, present = present, full = present + limit.room, used = present, used_at = now }
  if body and now < body.at then
    local used_at = body.at
    if body.digest ~= limit.digest and not body.overdrawn then
      local full_at = instant_at(limit, view.full)
      view.clamped = full_at < used_at
      used_at = least(used_at, full_at)
    end
    view.used, view.used_at = units(limit, used_at), used_at
  end
  return view
end

local function flow_answer(limit, view, outcome, granted, wait)
  local minus = view.full < view.used
  local left = minus and view.used - view.full or view.full - view.used
  return { outcome = outcome, granted = granted, left = left, minus = minus, wait = wait, reset = view.used_at - view.now }
end

local function commit(limit, view, finish, granted, start)
  local used_at = least(instant_at(limit, finish), END_OF_TIME)
  if used_at == END_OF_TIME then
    finish = units(limit, used_at)
  end
  local body = { at = used_at, overdrawn = view.full < finish, digest = limit.digest }
  local after = { now = view.now, full = view.full, used = most(finish, view.present), used_at = used_at }
  return flow_answer(limit, after, ALLOWED, granted, start), body
end

local function take(limit, body, view, cost, max_wait)
  local asked = cost > 0 and cost or 1
  if asked > limit.capacity and limit.admission ~= PAID then
    return flow_answer(limit, view, NEVER_FITS, 0, ZERO), body
  end
  local finish = view.used + times(limit.token, of(asked))
  local start, lack = ZERO, ZERO
  local function until_unit(unit)
    return instant_at(limit, unit) - view.now
  end
  if limit.admission == FITS then
    if view.full < finish then
      start = until_unit(finish - limit.room)
    end
  elseif limit.admission == IN_TURN then
    start = view.used_at - view.now
    if view.full < finish then
      lack = until_unit(finish - limit.room)
    end
  elseif view.full < view.used then
    start = until_unit(view.used - limit.room)
  end
  local patience = max_wait or (limit.admission == IN_TURN and END_OF_TIME or ZERO)
  if ZERO < lack or patience < start then
    if view.clamped and cost > 0 then
      body = { at = view.used_at, overdrawn = false, digest = limit.digest }
    end
    return flow_answer(limit, view, DENIED, 0, most(lack, start - patience)), body
  end
  if cost == 0 then
    return flow_answer(limit, view, ALLOWED, 0, start), body
  end
  return commit(limit, view, finish, cost, start)
end

local function refund(limit, body, view, cost, at)
  local worth = times(limit.token, of(cost))
  local give = worth
  if at and view.now < at then
    -- A reservation that has not started: what queued behind it keeps its place.
    local behind = units(limit, at)
    if limit.admission == FITS then
      behind = behind + limit.room
    elseif limit.admission == IN_TURN then
      behind = behind + worth
    else
      behind = behind + limit.room + worth
    end
    give = worth - (view.used - behind)
  elseif at then
    give = least(worth, units(limit, at) + limit.room - view.present)
  end
  local finish = most(view.used - give, view.present)
  local given = plain(scale_down(view.used - finish, of(1), limit.token))
  local decision, changed = commit(limit, view, finish, given, ZERO)
  if finish == view.used and not view.clamped then
    changed = body
  end
  return decision, changed
end

local flow = {
  is_flow = true,

  set_up = function(limit)
    set_pace(limit, limit.words[1], limit.words[3])
    limit.room = limit.words[2]
    limit.admission = limit.kind == 4 and IN_TURN or limit.kind == 10 and PAID or FITS
  end,

  load = function(limit, key)
    local text = redis.call('GET', key)
    if not text then
      return nil
    end
    if #text ~= (limit.blocks and 32 or 24) then
      error('TOLLGATE what is stored was written by another program')
    end
    local micros, mark = struct.unpack('<ddd', text)
    check_version(floor(mark / 2 ^ 27))
    local overdrawn, low = mark % 2, mark % 2 ^ 11
    local part = micros % 1e6
    local at = instant_of((micros - part) / 1e6, part * 1000 + (low - overdrawn) / 2)
    local blocked = ZERO
    if limit.blocks then
      blocked = wide(struct.unpack('>I2I6', text, 25))
    end
    local body = { at = at, overdrawn = overdrawn == 1, digest = floor(mark / 2 ^ 11) % 2 ^ 16 }
    return { body = body, blocked = blocked, fresh = most(at, blocked) }
  end,

  save = function(limit, key, _, state, ttl, now)
    if not state.body and state.blocked <= now then
      redis.call('DEL', key)
      return
    end
    local body = state.body or { at = ZERO, digest = 0 }
    local seconds, nanos = seconds_of(body.at)
    local rest = nanos % 1000
    local mark = VERSION * 2 ^ 27 + body.digest * 2 ^ 11 + rest * 2 + (body.overdrawn and 1 or 0)
    local text = struct.pack('<ddd', seconds * 1e6 + (nanos - rest) / 1000, mark, 0)
    if limit.blocks then
      text = text .. struct.pack('>I2I6', state.blocked[1], state.blocked[2])
    end
    redis.call('SET', key, text, 'PX', ttl)
  end,

  fresh_at = function(limit, body)
    return body.at
  end,

  decide = function(limit, body, now, ask)
    local view, action = view_of(limit, body, now), ask.action
    if action == TAKE then
      return take(limit, body, view, ask.cost, ask.instant)
    elseif action == TAKE_UP_TO then
      local there = 0
      if limit.admission ~= PAID then
        there = plain(scale_down(view.full - view.used, of(1), limit.token))
      elseif view.used <= view.full then
        there = ask.cost
      end
      return take(limit, body, view, part_of(ask.cost, there))
    elseif action == DEBIT then
      -- A debit that belongs to the past has been partly refilled since: from then on, or from when it would have been full.
      local from = view.used
      if not (view.present < view.used) then
        local booked = ask.instant and least(ask.instant, now) or now
        from = units(limit, body and most(booked, least(body.at, now)) or booked)
      end
      return commit(limit, view, from + times(limit.token, of(ask.cost)), ask.cost, ZERO)
    elseif action == REFUND then
      return refund(limit, body, view, ask.cost, ask.instant)
    elseif action == FORGET then
      view.used, view.used_at = view.present, now
      return flow_answer(limit, view, ALLOWED, 0, ZERO), nil
    end
    return take(limit, body, view, 0)
  end,
}

for _, kind in ipairs({ 1, 3, 4, 9, 10 }) do
  algorithms[kind] = flow
end
