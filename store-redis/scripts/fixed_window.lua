-- Fixed window: a counter per window, aligned to the epoch or anchored at the first hit.
--
-- limit: count, period, anchored; body: start, used

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
    -- A longer period than before begins earlier; the count is kept.
    return { start = now < body.start and body.start or start, used = body.used }
  end
  return { start = start, used = 0 }
end

-- What the values of all keys have in common that are counted in the window of now.
local function common(limit, now)
  if not limit.common then
    local start = window_start(limit, now)
    local fresh = least(start + limit.period, END_OF_TIME)
    local mark = struct.pack('>I2I6', start[1], start[2])
    limit.common = { start = start, fresh = fresh, mark = mark, head = struct.pack('>BI2I6', VERSION, fresh[1], fresh[2]) .. mark }
  end
  return limit.common
end

algorithms[5] = {
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

  book = function(limit, text, now, ask)
    local window = common(limit, now)
    if limit.anchored or (ask.instant and ask.instant < window.start) then
      return nil
    end
    local used = 0
    if text then
      if #text ~= 24 or text:byte() ~= VERSION then
        return nil
      elseif text:sub(10, 17) == window.mark then
        used = struct.unpack('>I7', text, 18)
      elseif window.start <= wide(struct.unpack('>I2I6', text, 10)) then
        return nil
      end
    end
    return window.head .. struct.pack('>I7', saturated(used + ask.cost)), window.fresh
  end,

  decide = function(limit, body, now, ask)
    local window = window_of(limit, body, now)
    local start, used, action, cost = window.start, window.used, ask.action, ask.cost
    local outcome, granted = ALLOWED, 0
    -- An instant before this window belongs to one that is over, and so is what happened there.
    local over = (action == DEBIT or action == REFUND) and ask.instant and ask.instant < start
    if action == DEBIT then
      granted = cost
      used = over and used or saturated(used + cost)
    elseif action == REFUND then
      granted = over and 0 or math.min(cost, used)
      used = used - granted
    elseif action == FORGET then
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
