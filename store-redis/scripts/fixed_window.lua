-- Fixed window: a counter per window, aligned to the epoch or anchored at the first hit.
--
-- limit: count, period, anchored
-- body:  start, used
-- value: '>BI2I6' version and fresh, then '>I2I6 I7' start and used

local function window_of(limit, body, now)
  local start = limit.anchored and now or window_start(limit, now)
  if not body then
    return { start = start, used = 0 }
  end
  if limit.anchored then
    if now < body.start + limit.period then
      return body
    end
  elseif start <= body.start then
    -- A window that is longer than before starts earlier; the count is kept.
    return { start = now < body.start and body.start or start, used = body.used }
  end
  return { start = start, used = 0 }
end

algorithms[FIXED_WINDOW] = {
  set_up = function(limit)
    limit.anchored = limit.flags % 2 == 1
  end,

  read = function(text, from)
    local h, l, used = struct.unpack('>I2I6I7', text, from)
    return { start = wide(h, l), used = used }
  end,

  write = function(body)
    return struct.pack('>I2I6I7', body.start[1], body.start[2], body.used)
  end,

  fresh_at = function(limit, body)
    return least(body.start + limit.period, END_OF_TIME)
  end,

  decide = function(limit, body, now, ask)
    local window = window_of(limit, body, now)
    local start, used, action, cost = window.start, window.used, ask.action, ask.cost
    local outcome, granted = ALLOWED, 0
    -- An instant before this window belongs to one that has ended, whose count no longer matters.
    local is_past = (action == DEBIT or action == REFUND) and ask.instant and ask.instant < start
    if action == DEBIT then
      granted = cost
      if is_past and limit.anchored then
        -- Unless it was the first hit: it starts an unused window, and counts in a used one.
        is_past = ask.instant + limit.period <= (used == 0 and now or start)
        start = used == 0 and not is_past and ask.instant or start
      end
      used = is_past and used or saturated(used + cost)
    elseif action == REFUND then
      granted = is_past and 0 or math.min(cost, used)
      used = used - granted
    elseif action == RESET then
      used = 0
    else
      outcome, granted = admission(limit.count, used, ask)
      used = used + granted
    end
    local finish = start + limit.period - now
    local wait, reset = outcome == DENIED and finish or ZERO, used == 0 and ZERO or finish
    local decision = counted(limit.count, used, outcome, granted, wait, reset)
    if used == 0 then
      return decision, nil
    end
    return decision, { start = start, used = used }
  end,
}
