-- Smooth warming up: any cost passes once the last one is paid for, and stored permits mean a cold limiter, which is
-- slow.
--
-- limit: count, period, words (the warm-up time, the cold factor k, and token and excess of the rate)
-- body:  warmed (the idle time until the limiter is cold), free_at (when the next ticket is free), warm_up (the warm-up
--        time that `warmed` refers to)

do
  local ONE = of(1)

  -- Returns the limiter as of now, cooled by the idle time.
  local function cooled(limit, body, now)
    if not body then
      return ZERO, now
    end
    local warmed, free_at = body.warmed, body.free_at
    if body.warm_up == ZERO then
      -- Only a block: earlier releases stored that with empty fields.
      warmed = ZERO
    elseif body.warm_up ~= limit.warm_up then
      -- A changed warm-up time scales the stored permits.
      warmed = scale_down(least(warmed, body.warm_up), limit.warm_up, body.warm_up)
    end
    return warmed - (now - free_at), most(free_at, now)
  end

  -- Returns the time that all stored permits cost: the area under the curve.
  local function price(limit, stored)
    local flat = scale_down(stored, limit.worth, limit.idle)
    local above = stored - limit.threshold
    if above == ZERO then
      return flat
    end
    return flat + scale_down(times(above, limit.steep), above, limit.slope)
  end

  -- Returns when a ticket ends at the stable rate, on the scale of the rate, which does not drift.
  local function stable_end(limit, from, cost)
    local unit = units(limit, from)
    if instant_at(limit, unit) < from then
      -- The last ticket may end between two units; rounding it down would over-admit.
      unit = unit + ONE
    end
    -- The instant of a unit is never before its number, so units may saturate at the end of time.
    unit = least(unit + times(limit.token, of(cost)), END_OF_TIME)
    return least(instant_at(limit, unit), END_OF_TIME)
  end

  -- Returns the idle time that permits are worth.
  local function stored_time(limit, permits)
    return scale_up(of(permits), limit.spread, limit.gain)
  end

  -- Returns whether others wait behind a reservation: the next ticket is free later than this one alone would end.
  local function is_behind(limit, warmed, free_at, cost, start)
    local stored = limit.warm_up - warmed
    if stored == ZERO then
      return stable_end(limit, start, cost) < free_at
    end
    local before = least(stored + stored_time(limit, cost), limit.warm_up)
    return start + (price(limit, before) - price(limit, stored)) < free_at
  end

  -- Debits permits: stored ones first, the rest at the stable rate.
  local function spend(limit, warmed, free_at, cost)
    local stored = limit.warm_up - warmed
    if stored == ZERO then
      return warmed, stable_end(limit, free_at, cost)
    end
    local wanted = stored_time(limit, cost)
    local taken = least(wanted, stored)
    local time = price(limit, stored) - price(limit, stored - taken)
    if taken < wanted then
      time = time + scale_up(wanted - taken, limit.worth, limit.idle)
    end
    return warmed + taken, least(free_at + time, END_OF_TIME)
  end

  algorithms[SMOOTH_WARMING_UP] = {
    -- One permit is worth period/count * 2(1+k)/(5+k) of idle time. Above warm_up * (1+k)/(5+k) of it the price rises.
    set_up = function(limit)
      local words = limit.words
      local k = plain(words[2])
      set_rate(limit, words[3], words[4])
      limit.warm_up = words[1]
      limit.worth, limit.idle = of(5 + k), of(2 * (1 + k))
      limit.gain, limit.spread = of(limit.count * (5 + k)), times(limit.period, limit.idle)
      limit.threshold = scale_down(limit.warm_up, of(1 + k), limit.worth)
      limit.steep = of((k - 1) * (5 + k))
      limit.slope = times(most(limit.warm_up - limit.threshold, ONE), of(4 * (1 + k)))
    end,

    read = function(text, from)
      local wh, wl, fh, fl, uh, ul = struct.unpack('>I2I6I2I6I2I6', text, from)
      return { warmed = wide(wh, wl), free_at = wide(fh, fl), warm_up = wide(uh, ul) }
    end,

    write = function(body)
      local warmed, free_at, warm_up = body.warmed, body.free_at, body.warm_up
      return struct.pack('>I2I6I2I6I2I6', warmed[1], warmed[2], free_at[1], free_at[2], warm_up[1], warm_up[2])
    end,

    fresh_at = function(limit, body)
      return least(body.free_at + body.warmed, END_OF_TIME)
    end,

    decide = function(limit, body, now, ask)
      local warmed, free_at = cooled(limit, body, now)
      local action, cost = ask.action, ask.cost
      local outcome, granted, wait = ALLOWED, 0, ZERO
      if action == DEBIT then
        granted = cost
        warmed, free_at = spend(limit, warmed, free_at, cost)
      elseif action == REFUND and ask.instant and now < ask.instant
        and is_behind(limit, warmed, free_at, cost, ask.instant) then
        -- A reservation that has not started: later ones keep their start.
        granted = 0
      elseif action == REFUND then
        -- Only debt can be refunded, not time that has passed.
        local unit = units(limit, free_at)
        local finish = most(unit - times(limit.token, of(cost)), units(limit, now))
        granted = plain(scale_down(unit - finish, ONE, limit.token))
        free_at = most(instant_at(limit, finish), now)
      elseif action == RESET then
        warmed, free_at = ZERO, now
      else
        local start, max_wait = free_at - now, action == TAKE and ask.instant or ZERO
        if max_wait < start then
          outcome, wait = DENIED, start - max_wait
        else
          wait = start
          if cost > 0 and (action == TAKE or action == TAKE_UP_TO) then
            granted = cost
            warmed, free_at = spend(limit, warmed, free_at, cost)
          end
        end
      end
      local decision = {
        outcome = outcome, granted = granted,
        left = scale_down(limit.warm_up - warmed, limit.gain, limit.spread), minus = false,
        wait = wait, reset = least(free_at + warmed, END_OF_TIME) - now,
      }
      if warmed == ZERO and free_at <= now then
        return decision, nil
      end
      return decision, { warmed = warmed, free_at = free_at, warm_up = limit.warm_up }
    end,
  }
end
