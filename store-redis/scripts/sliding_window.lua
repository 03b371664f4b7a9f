-- Sliding window: the count of the previous window, weighted by its overlap with the sliding window, plus the current
-- count.
--
-- limit: count, period
-- body:  period (the length of its windows), start, previous, current
-- value: '>BI2I6' version and fresh, then '>I2I6 I2I6 I7 I7' the body

do
  -- Returns the windows as of now. After a clock was set back, they stay in the later window.
  local function rolled(limit, body, now)
    local period = limit.period
    if body and body.period == period and now < body.start + period then
      return body.start, body.previous, body.current
    end
    local start = window_start(limit, now)
    if not body or body.start + period < start then
      return start, 0, 0
    elseif body.start < start then
      -- A debt expires with its window, so no more than the limit is carried over.
      return start, math.min(body.current, limit.count), 0
    end
    return now < body.start and body.start or start, body.previous, body.current
  end

  -- Returns how far into a window the weighted count `before` leaves `room`.
  local function offset(limit, room, before)
    if before == 0 then
      return ZERO
    end
    return limit.period - scale_down(of(room), limit.period, of(before))
  end

  -- Returns when the usage leaves `room`, without further takes.
  local function passes_at(limit, start, previous, current, room)
    if current <= room then
      return start + offset(limit, room - current, previous)
    end
    return start + limit.period + offset(limit, room, math.min(current, limit.count))
  end

  local function expires_at(limit, start, previous, current)
    local finish = ZERO
    if current > 0 then
      finish = start + limit.period + limit.period
    elseif previous > 0 then
      finish = start + limit.period
    end
    return least(finish, END_OF_TIME)
  end

  -- Returns a counter after a debit or a refund, and what was granted.
  local function apply(counter, ask)
    if ask.action == DEBIT then
      return saturated(counter + ask.cost), ask.cost
    end
    local refunded = math.min(counter, ask.cost)
    return counter - refunded, refunded
  end

  algorithms[SLIDING_WINDOW] = {
    read = function(text, from)
      local ph, pl, sh, sl, previous, current = struct.unpack('>I2I6I2I6I7I7', text, from)
      return { period = wide(ph, pl), start = wide(sh, sl), previous = previous, current = current }
    end,

    write = function(body)
      local period, start = body.period, body.start
      return struct.pack('>I2I6I2I6I7I7', period[1], period[2], start[1], start[2], body.previous, body.current)
    end,

    fresh_at = function(limit, body)
      return expires_at(limit, body.start, body.previous, body.current)
    end,

    decide = function(limit, body, now, ask)
      local start, previous, current = rolled(limit, body, now)
      local action, cost, at = ask.action, ask.cost, ask.instant
      local outcome, granted, wait = ALLOWED, 0, ZERO
      -- Deltas come first, because those of the previous window are weighted as well.
      if action == DEBIT or action == REFUND then
        if not at or start <= at then
          current, granted = apply(current, ask)
        elseif start <= at + limit.period then
          previous, granted = apply(previous, ask)
        elseif action == DEBIT then
          granted = cost
        end
      elseif action == RESET then
        previous, current = 0, 0
      end
      local used = current
      if previous > 0 then
        local elapsed = least(now - start, limit.period)
        used = current + plain(scale_up(of(previous), limit.period - elapsed, limit.period))
      end
      if action ~= DEBIT and action ~= REFUND and action ~= RESET then
        local asked
        outcome, granted, asked = admission(limit.count, used, ask)
        current, used = current + granted, used + granted
        if outcome == DENIED then
          wait = passes_at(limit, start, previous, current, limit.count - asked) - now
        end
      end
      local reset = expires_at(limit, start, previous, current) - now
      local decision = counted(limit.count, used, outcome, granted, wait, reset)
      if previous == 0 and current == 0 then
        return decision, nil
      end
      return decision, { period = limit.period, start = start, previous = previous, current = current }
    end,
  }
end
