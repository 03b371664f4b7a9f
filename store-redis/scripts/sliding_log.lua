-- Sliding log: exact instants, so never more than the count in any period. Optionally, denied actions count as well,
-- and there is a minimum gap between actions.
--
-- limit: count, period, gap, count_denied
-- value: stored_log.lua
-- body:  log_entries.lua

do
  -- How many entries a log may have beyond its count.
  local MAX_DEBT_ENTRIES = 64

  local entry, first_where, first_after, sum_before = log.entry, log.first_where, log.first_after, log.sum_before

  -- Adds an action in order. Actions of the same instant are one entry.
  local function add(body, at, cost)
    if not body then
      return log.of_one(at, cost)
    end
    cost = saturated(body.sum + cost) - body.sum
    local costless = body.costless ~= at and body.costless
    if at == body.at then
      return changed(body, { sum = body.sum + cost, costless = costless })
    end
    local after = at < body.at and first_after(body, at) or body.last + 1
    local from, before = after, body.past
    if after > body.first then
      local h, l, sum = entry(body, after - 1)
      from, before = h == at[1] and l == at[2] and after - 1 or after, sum
    end
    local with = log.replaced(body, from, after, { { at = at, sum = before + cost } }, cost)
    with.costless = costless
    return with
  end

  -- Refunds up to `cost` of the entries at or before `at`, the newest first. Returns how much.
  local function refund(body, at, cost)
    local stop = body.last + 1
    if at and at < body.at then
      stop = first_after(body, at)
    end
    local sum = sum_before(body, stop)
    local refunded = math.min(cost, sum - body.past)
    if refunded == 0 then
      return 0, body
    end
    local left, rest = sum - refunded, {}
    local from = log.first_above(body, left)
    if sum_before(body, from) < left then
      local h, l = entry(body, from)
      rest[1] = { at = wide(h, l), sum = left }
    end
    -- An entry without a cost stays: it is the last action, kept for the gap.
    local costless = body.costless and first_after(body, body.costless) - 1 or -1
    if from < costless and costless < stop then
      rest[#rest + 1] = { at = body.costless, sum = left }
    end
    return refunded, log.replaced(body, from, stop, rest, -refunded)
  end

  -- Returns the log from an entry on, which has whatever is not in the sum of those before it.
  local function since(body, first, past)
    local h, l, sum = entry(body, first)
    local at, costless = wide(h, l), body.costless
    if costless and (costless < at or (costless == at and past < sum)) then
      costless = false
    end
    return changed(body, { first = first, past = past, costless = costless })
  end

  -- After a clock was set back, time continues at the newest entry.
  local function not_before_last(body, now)
    return body and most(body.at, now) or now
  end

  -- Returns the log as of now. An entry is live for one period, or for the gap if that is longer.
  local function pruned(limit, body, now)
    local latest = not_before_last(body, now)
    if not body or latest < limit.period then
      return body
    end
    local expired_at = latest - limit.period
    if body.at <= expired_at then
      if body.at + limit.gap <= latest then
        return nil
      elseif body.first == body.last and not log.is_paid(body) then
        return body
      end
      -- The last action is kept for the gap, without a cost.
      return changed(body, { first = body.last, past = body.sum, costless = body.at })
    end
    local first = log.first_live(body, expired_at)
    if first == body.first then
      return body
    end
    return since(body, first, sum_before(body, first))
  end

  -- Keeps only the newest actions, up to the count, after a denied action was added.
  local function keep_newest(limit, body)
    local past = body.sum - limit.count
    if past <= body.past then
      return body
    end
    local first = first_where(body, function(_, _, sum)
      return past <= sum
    end)
    if select(3, entry(body, first)) == past then
      first = first + 1
    end
    return since(body, first, past)
  end

  local function used(body)
    return body and body.sum - body.past or 0
  end

  -- Combines the oldest entries once there are many more than the count, which only debits can cause: what exceeds the
  -- count is dated as the last of it.
  local function combine_debt(limit, body)
    if body.last - body.first + 1 <= limit.count + MAX_DEBT_ENTRIES then
      return body
    end
    local debt = used(body) - limit.count
    local beyond = first_where(body, function(_, _, sum)
      return debt < sum - body.past
    end)
    return since(body, math.max(beyond - 1, body.first), body.past)
  end

  -- Returns when the gap after the newest entry ends; zero if there is no minimum gap.
  local function gap_ends_at(limit, body)
    return ZERO < limit.gap and body.at + limit.gap or ZERO
  end

  local function fresh_at(limit, body)
    local span = log.is_paid(body) and most(limit.period, limit.gap) or limit.gap
    return least(body.at + span, END_OF_TIME)
  end

  local function answer(limit, body, now, outcome, granted, wait)
    local reset = body and fresh_at(limit, body) - now or ZERO
    return counted(limit.count, used(body), outcome, granted, wait, reset)
  end

  local function passes_at(limit, body, cost)
    local apart, excess = gap_ends_at(limit, body), used(body) + cost - limit.count
    if excess <= 0 then
      return apart
    end
    -- When at least the excess has left the period.
    local index = first_where(body, function(_, _, sum)
      return excess <= sum - body.past
    end)
    if index > body.last then
      return apart
    end
    local h, l = entry(body, index)
    return most(apart, wide(h, l) + limit.period)
  end

  local function take(limit, body, now, cost)
    local asked = math.max(cost, 1)
    if asked > limit.count then
      return answer(limit, body, now, NEVER_FITS, 0, ZERO), body
    end
    if used(body) + asked > limit.count or (body and now < gap_ends_at(limit, body)) then
      return answer(limit, body, now, DENIED, 0, passes_at(limit, body, asked) - now), body
    end
    if cost > 0 then
      body = add(body, not_before_last(body, now), cost)
    end
    return answer(limit, body, now, ALLOWED, cost, ZERO), body
  end

  algorithms[SLIDING_LOG] = {
    set_up = function(limit)
      limit.gap = limit.words[1]
      limit.count_denied = limit.flags % 2 == 1
    end,

    load = function(_, key)
      return log.load(key)
    end,

    save = function(_, key, before, state, ttl, now)
      log.save(key, before, state, ttl, now)
    end,

    fresh_at = fresh_at,

    decide = function(limit, body, now, ask)
      local action, cost = ask.action, ask.cost
      body = pruned(limit, body, now)
      if action == TAKE then
        return take(limit, body, now, cost)
      elseif action == TAKE_UP_TO then
        return take(limit, body, now, part_of(cost, limit.count - used(body)))
      elseif action == DEBIT then
        local at = ask.instant and least(ask.instant, now) or not_before_last(body, now)
        if cost > 0 and now < at + limit.period then
          body = combine_debt(limit, add(body, at, cost))
        end
        return answer(limit, body, now, ALLOWED, cost, ZERO), body
      elseif action == REFUND then
        local refunded = 0
        if body then
          refunded, body = refund(body, ask.instant, cost)
        end
        return answer(limit, body, now, ALLOWED, refunded, ZERO), body
      elseif action == RESET then
        return answer(limit, nil, now, ALLOWED, 0, ZERO), nil
      end
      return take(limit, body, now, 0)
    end,

    denied = function(limit, body, now, ask)
      if not limit.count_denied or ask.cost == 0 then
        return nil
      end
      body = pruned(limit, body, now)
      body = keep_newest(limit, add(body, not_before_last(body, now), ask.cost))
      -- The decision is that after this denial was counted.
      local asked = ask.action == TAKE_UP_TO and 1 or ask.cost
      return answer(limit, body, now, DENIED, 0, passes_at(limit, body, asked) - now), body
    end,
  }
end
