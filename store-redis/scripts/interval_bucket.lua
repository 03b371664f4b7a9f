-- Token bucket refilled by interval: the whole count at the end of each period, up to the capacity. The first period
-- starts with the first debit from a full bucket.
--
-- limit: refill (the tokens that a period refills), period, capacity
-- body:  missing (tokens), since (the start of the current period), overdrawn (debits or reservations exceeded the
--        capacity; otherwise more than the capacity is missing only because the limit has changed)

do
  -- The largest u64, where core saturates.
  local LAST = wide(2 ^ 16 - 1, BASE - 1)

  -- Returns the bucket as of now, refilled for every period that has passed.
  local function refilled(limit, body, now)
    if not body then
      return 0, now
    end
    local missing, since = body.missing, body.since
    if not body.overdrawn then
      missing = math.min(missing, limit.capacity)
    end
    if since + limit.period <= now then
      local periods, rest = split(now - since, limit.period)
      missing, since = missing - plain(periods) * limit.refill, now - rest
    end
    if missing <= 0 then
      return 0, now
    end
    return missing, since
  end

  -- Returns after how many periods `many` of the missing tokens are refilled.
  local function periods_for(limit, many)
    return math.max(math.ceil(many / limit.refill), 0)
  end

  -- Returns the instant this many periods from the start of the current one; zero for none.
  local function after(limit, since, periods)
    if periods == 0 then
      return ZERO
    end
    if periods * plain(limit.period) > 2 ^ 65 then
      return LAST
    end
    return least(since + times(of(periods), limit.period), LAST)
  end

  local function full_at(limit, since, missing)
    return after(limit, since, periods_for(limit, missing))
  end

  -- Returns how much of a debit of `cost` at `at` can be refunded.
  local function refundable(limit, missing, since, now, cost, at)
    if now < at then
      -- A reservation that has not started. If others start in later periods, they keep their start.
      local periods = plain(split(at - since, limit.period))
      return missing > limit.capacity + periods * limit.refill and 0 or cost
    elseif at < since then
      -- A debit from before the current period has been refilled since, partly or completely.
      return math.max(cost - plain(scale_up(since - at, of(1), limit.period)) * limit.refill, 0)
    end
    return cost
  end

  algorithms[INTERVAL_BUCKET] = {
    set_up = function(limit)
      limit.refill = math.min(limit.count, limit.capacity)
    end,

    read = function(text, from)
      local missing, h, l, overdrawn = struct.unpack('>I7I2I6B', text, from)
      return { missing = missing, since = wide(h, l), overdrawn = overdrawn == 1 }
    end,

    write = function(body)
      return struct.pack('>I7I2I6B', body.missing, body.since[1], body.since[2], body.overdrawn and 1 or 0)
    end,

    fresh_at = function(limit, body)
      return least(full_at(limit, body.since, body.missing), END_OF_TIME)
    end,

    decide = function(limit, body, now, ask)
      local missing, since = refilled(limit, body, now)
      local action, cost, at = ask.action, ask.cost, ask.instant
      local outcome, granted, wait = ALLOWED, 0, ZERO
      if action == DEBIT then
        granted = cost
        if missing == 0 and at and at < since then
          -- The bucket was full until then: the period started with this debit.
          local debited = { missing = cost, since = at, overdrawn = cost > limit.capacity }
          missing, since = refilled(limit, debited, now)
        else
          missing = saturated(missing + cost)
        end
      elseif action == REFUND then
        granted = math.min(at and refundable(limit, missing, since, now, cost, at) or cost, missing)
        missing = missing - granted
      elseif action == RESET then
        missing = 0
      else
        local max_wait = action == TAKE and at or ZERO
        if action == TAKE_UP_TO then
          cost = part_of(cost, limit.capacity - missing)
        elseif action ~= TAKE then
          cost = 0
        end
        local asked = math.max(cost, 1)
        if asked > limit.capacity then
          outcome = NEVER_FITS
        else
          local periods = periods_for(limit, missing + asked - limit.capacity)
          local start = after(limit, since, periods) - now
          if max_wait < start then
            outcome, wait = DENIED, start - max_wait
          else
            granted, wait = cost, start
            if cost > 0 then
              -- The periods until the start do not fill the bucket beyond its capacity.
              missing = saturated(math.max(missing, periods * limit.refill) + cost)
            end
          end
        end
      end
      local reset = full_at(limit, since, missing) - now
      local decision = counted(limit.capacity, missing, outcome, granted, wait, reset)
      if missing == 0 then
        return decision, nil
      end
      return decision, { missing = missing, since = since, overdrawn = missing > limit.capacity }
    end,
  }
end
