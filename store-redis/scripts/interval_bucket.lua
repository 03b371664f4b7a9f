-- Token bucket refilled by interval: the whole count at the end of each period, the first of which starts with the
-- first debit from a full bucket.
--
-- limit: count, period, capacity
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
      missing, since = missing - plain(periods) * limit.count, now - rest
    end
    if missing <= 0 then
      return 0, now
    end
    return missing, since
  end

  -- Returns the instant at which `many` of the missing tokens are refilled.
  local function refilled_at(limit, since, many)
    if many <= 0 then
      return ZERO
    end
    local periods = math.ceil(many / limit.count)
    if periods * plain(limit.period) > 2 ^ 65 then
      return LAST
    end
    return least(since + times(of(periods), limit.period), LAST)
  end

  algorithms[INTERVAL_BUCKET] = {
    read = function(text, from)
      local missing, h, l, overdrawn = struct.unpack('>I7I2I6B', text, from)
      return { missing = missing, since = wide(h, l), overdrawn = overdrawn == 1 }
    end,

    write = function(body)
      return struct.pack('>I7I2I6B', body.missing, body.since[1], body.since[2], body.overdrawn and 1 or 0)
    end,

    fresh_at = function(limit, body)
      return least(refilled_at(limit, body.since, body.missing), END_OF_TIME)
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
        local worth = cost
        if at and at < since then
          -- A debit from before the current period has been refilled since, partly or completely.
          worth = math.max(cost - plain(scale_up(since - at, of(1), limit.period)) * limit.count, 0)
        end
        granted = math.min(worth, missing)
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
          local start = refilled_at(limit, since, missing + asked - limit.capacity) - now
          if max_wait < start then
            outcome, wait = DENIED, start - max_wait
          else
            granted, wait = cost, start
            missing = saturated(missing + cost)
          end
        end
      end
      local reset = refilled_at(limit, since, missing) - now
      local decision = counted(limit.capacity, missing, outcome, granted, wait, reset)
      if missing == 0 then
        return decision, nil
      end
      return decision, { missing = missing, since = since, overdrawn = missing > limit.capacity }
    end,
  }
end
