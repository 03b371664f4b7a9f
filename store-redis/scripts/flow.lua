-- Token bucket, leaky buckets, GCRA and smooth bursty: continuous flows, whose state is a theoretical arrival time
-- (TAT), the instant at which the flow is full again.
--
-- limit: period, token (units of one token), capacity_units, excess (nanoseconds by which a period exceeds
--        its units), digest (of the parameters)
-- body:  at (the TAT), overdrawn, digest
-- value: see stored_format.lua; the short scripts share it

-- When a charge is admitted: if it fits, in a queue, or once the debt of the preceding charges is repaid.
local FITS, QUEUED, REPAID = 1, 2, 3

local function view_of(limit, body, now)
  local now_unit = units(limit, now)
  local max_tat_unit = now_unit + limit.capacity_units
  local view = { now = now, now_unit = now_unit, max_tat_unit = max_tat_unit, tat_unit = now_unit, tat = now }
  if body and now < body.at then
    local tat = body.at
    if body.digest ~= limit.digest and not body.overdrawn then
      local max_tat = instant_at(limit, view.max_tat_unit)
      view.clamped = max_tat < tat
      tat = least(tat, max_tat)
    end
    view.tat_unit, view.tat = units(limit, tat), tat
  end
  return view
end

local function flow_decision(limit, view, outcome, granted, wait)
  local minus = view.max_tat_unit < view.tat_unit
  local left = minus and view.tat_unit - view.max_tat_unit or view.max_tat_unit - view.tat_unit
  local reset = view.tat - view.now
  return { outcome = outcome, granted = granted, left = left, minus = minus, wait = wait, reset = reset }
end

local function commit(limit, view, next_tat_unit, granted, start)
  local tat = least(instant_at(limit, next_tat_unit), END_OF_TIME)
  if tat == END_OF_TIME then
    next_tat_unit = units(limit, tat)
  end
  local body = { at = tat, overdrawn = view.max_tat_unit < next_tat_unit, digest = limit.digest }
  local tat_unit = most(next_tat_unit, view.now_unit)
  local after = { now = view.now, max_tat_unit = view.max_tat_unit, tat_unit = tat_unit, tat = tat }
  return flow_decision(limit, after, ALLOWED, granted, start), body
end

local function take(limit, body, view, cost, max_wait)
  local needed = cost > 0 and cost or 1
  if needed > limit.capacity and limit.admission ~= REPAID then
    return flow_decision(limit, view, NEVER_FITS, 0, ZERO), body
  end
  local next_tat_unit = view.tat_unit + times(limit.token, of(needed))
  -- `shortfall` is time that no wait makes up for.
  local start, shortfall = ZERO, ZERO
  local function until_unit(unit)
    return instant_at(limit, unit) - view.now
  end
  if limit.admission == FITS then
    if view.max_tat_unit < next_tat_unit then
      start = until_unit(next_tat_unit - limit.capacity_units)
    end
  elseif limit.admission == QUEUED then
    start = view.tat - view.now
    if view.max_tat_unit < next_tat_unit then
      shortfall = until_unit(next_tat_unit - limit.capacity_units)
    end
  elseif view.max_tat_unit < view.tat_unit then
    start = until_unit(view.tat_unit - limit.capacity_units)
  end
  max_wait = max_wait or (limit.admission == QUEUED and END_OF_TIME or ZERO)
  if ZERO < shortfall or max_wait < start then
    if view.clamped then
      body = { at = view.tat, overdrawn = false, digest = limit.digest }
    end
    return flow_decision(limit, view, DENIED, 0, most(shortfall, start - max_wait)), body
  end
  if cost == 0 then
    return flow_decision(limit, view, ALLOWED, 0, start), body
  end
  return commit(limit, view, next_tat_unit, cost, start)
end

local function refund(limit, body, view, cost, at)
  local worth = times(limit.token, of(cost))
  local amount = worth
  if at and view.now < at then
    -- A reservation that has not started. If others wait behind it, they keep their start.
    local behind = units(limit, at)
    if limit.admission == FITS then
      behind = behind + limit.capacity_units
    elseif limit.admission == QUEUED then
      behind = behind + worth
    else
      behind = behind + limit.capacity_units + worth
    end
    if behind < view.tat_unit then
      amount = ZERO
    end
  elseif at then
    -- The latest TAT that the debit can have caused.
    local latest = limit.admission == REPAID and limit.capacity_units + worth or most(limit.capacity_units, worth)
    amount = least(worth, units(limit, at) + latest - view.now_unit)
  end
  local next_tat_unit = most(view.tat_unit - amount, view.now_unit)
  local refunded = plain(scale_down(view.tat_unit - next_tat_unit, of(1), limit.token))
  local decision, changed = commit(limit, view, next_tat_unit, refunded, ZERO)
  if next_tat_unit == view.tat_unit and not view.clamped then
    changed = body
  end
  return decision, changed
end

local flow = {
  is_flow = true,

  set_up = function(limit)
    set_rate(limit, limit.words[1], limit.words[3])
    limit.capacity_units = limit.words[2]
    limit.admission = limit.kind == LEAKY_QUEUE and QUEUED or limit.kind == SMOOTH_BURSTY and REPAID or FITS
  end,

  load = function(limit, key)
    local text = redis.call('GET', key)
    if not text then
      return nil
    end
    if #text ~= (limit.blocks and FLOW_SIZE + 8 or FLOW_SIZE) then
      error(FOREIGN_PROGRAM)
    end
    local micros, mark = struct.unpack('<ddd', text)
    check_version(floor(mark / MARK_VERSION))
    local overdrawn, low = mark % 2, mark % MARK_DIGEST
    local part = micros % 1e6
    local at = instant_of((micros - part) / 1e6, part * 1000 + (low - overdrawn) / 2)
    local blocked = ZERO
    if limit.blocks then
      blocked = wide(struct.unpack('>I2I6', text, FLOW_SIZE + 1))
    end
    local digest = floor(mark / MARK_DIGEST) % (MARK_VERSION / MARK_DIGEST)
    local body = { at = at, overdrawn = overdrawn == 1, digest = digest }
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
    local mark = MARK_FIRST + body.digest * MARK_DIGEST + rest * 2 + (body.overdrawn and 1 or 0)
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
      local available = 0
      if limit.admission ~= REPAID then
        available = plain(scale_down(view.max_tat_unit - view.tat_unit, of(1), limit.token))
      elseif view.tat_unit <= view.max_tat_unit then
        available = ask.cost
      end
      return take(limit, body, view, part_of(ask.cost, available))
    elseif action == DEBIT then
      -- A debit that belongs to the past has been partly refilled since: from its instant or from the TAT on, the later
      -- one.
      local from = view.tat_unit
      if not (view.now_unit < view.tat_unit) then
        local applied_at = ask.instant and least(ask.instant, now) or now
        from = units(limit, body and most(applied_at, least(body.at, now)) or applied_at)
      end
      return commit(limit, view, from + times(limit.token, of(ask.cost)), ask.cost, ZERO)
    elseif action == REFUND then
      return refund(limit, body, view, ask.cost, ask.instant)
    elseif action == RESET then
      view.tat_unit, view.tat = view.now_unit, now
      return flow_decision(limit, view, ALLOWED, 0, ZERO), nil
    end
    return take(limit, body, view, 0)
  end,
}

for _, kind in ipairs({ TOKEN_BUCKET, LEAKY_METER, LEAKY_QUEUE, GCRA, SMOOTH_BURSTY }) do
  algorithms[kind] = flow
end
