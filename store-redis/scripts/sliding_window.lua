-- Sliding window: the previous window's count, weighted by the part of it that is still in sight, plus the current one's.
--
-- limit: count, period; body: period (how long its windows are), start, previous, current

do
  -- The windows as of now. A clock that was set back stays in the later window.
  local function rolled(limit, body, now)
    local period = limit.period
    if body and body.period == period and now < body.start + period then
      return body.start, body.previous, body.current
    end
    local start = window_start(limit, now)
    if not body or body.start + period < start then
      return start, 0, 0
    elseif body.start < start then
      -- A debt ends with its window, so no more than the limit is carried over.
      return start, math.min(body.current, limit.count), 0
    end
    return now < body.start and body.start or start, body.previous, body.current
  end

  -- How far into a window the part of `before` that is still in sight leaves `room`.
  local function offset(limit, room, before)
    if before == 0 then
      return ZERO
    end
    return limit.period - scale_down(of(room), limit.period, of(before))
  end

  -- When what leaves `room` to others passes if nobody else comes.
  local function passes_at(limit, start, previous, current, room)
    if current <= room then
      return start + offset(limit, room - current, previous)
    end
    return start + limit.period + offset(limit, room, math.min(current, limit.count))
  end

  local function end_of(limit, start, previous, current)
    local finish = ZERO
    if current > 0 then
      finish = start + limit.period + limit.period
    elseif previous > 0 then
      finish = start + limit.period
    end
    return least(finish, END_OF_TIME)
  end

  -- What the values of all keys have in common that are counted in the window of now, and the mark of those of the one before.
  local function common(limit, now)
    if not limit.common then
      local period, start = limit.period, window_start(limit, now)
      local before, fresh = start - period, least(start + period + period, END_OF_TIME)
      local mark = struct.pack('>I2I6I2I6', period[1], period[2], start[1], start[2])
      limit.common = {
        start = start, fresh = fresh, mark = mark,
        mark_before = struct.pack('>I2I6I2I6', period[1], period[2], before[1], before[2]),
        head = struct.pack('>BI2I6', VERSION, fresh[1], fresh[2]) .. mark,
      }
    end
    return limit.common
  end

  local function changed(counter, ask)
    if ask.action == DEBIT then
      return saturated(counter + ask.cost), ask.cost
    end
    local given = math.min(counter, ask.cost)
    return counter - given, given
  end

  algorithms[8] = {
    read = function(text, from)
      local ph, pl, sh, sl, previous, current = struct.unpack('>I2I6I2I6I7I7', text, from)
      return { period = wide(ph, pl), start = wide(sh, sl), previous = previous, current = current }
    end,

    write = function(body)
      local period, start = body.period, body.start
      return struct.pack('>I2I6I2I6I7I7', period[1], period[2], start[1], start[2], body.previous, body.current)
    end,

    fresh_at = function(limit, body)
      return end_of(limit, body.start, body.previous, body.current)
    end,

    book = function(limit, text, now, ask)
      local window, previous, current, at = common(limit, now), 0, 0, ask.instant
      if text then
        local mark = text:sub(10, 25)
        if #text ~= 39 or text:byte() ~= VERSION then
          return nil
        elseif mark == window.mark then
          previous, current = struct.unpack('>I7I7', text, 26)
        elseif mark == window.mark_before then
          previous = math.min(struct.unpack('>I7', text, 33), limit.count)
        else
          return nil
        end
      end
      if not at or window.start <= at then
        current = saturated(current + ask.cost)
      elseif window.start <= at + limit.period then
        previous = saturated(previous + ask.cost)
      end
      if current == 0 then
        return nil
      end
      return window.head .. struct.pack('>I7I7', previous, current), window.fresh
    end,

    decide = function(limit, body, now, ask)
      local start, previous, current = rolled(limit, body, now)
      local action, cost, at = ask.action, ask.cost, ask.instant
      local outcome, granted, wait = ALLOWED, 0, ZERO
      -- What has changed in the previous window is weighted too, so this comes before the weight.
      if action == DEBIT or action == REFUND then
        if not at or start <= at then
          current, granted = changed(current, ask)
        elseif start <= at + limit.period then
          previous, granted = changed(previous, ask)
        elseif action == DEBIT then
          granted = cost
        end
      elseif action == FORGET then
        previous, current = 0, 0
      end
      local used = current
      if previous > 0 then
        local elapsed = least(now - start, limit.period)
        used = current + plain(scale_up(of(previous), limit.period - elapsed, limit.period))
      end
      if action ~= DEBIT and action ~= REFUND and action ~= FORGET then
        local asked
        outcome, granted, asked = admission(limit.count, used, ask)
        current, used = current + granted, used + granted
        if outcome == DENIED then
          wait = passes_at(limit, start, previous, current, limit.count - asked) - now
        end
      end
      local reset = end_of(limit, start, previous, current) - now
      local decision = counted(limit.count, used, outcome, granted, wait, reset)
      if previous == 0 and current == 0 then
        return decision, nil
      end
      return decision, { period = limit.period, start = start, previous = previous, current = current }
    end,
  }
end
