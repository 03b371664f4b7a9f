-- Sliding counter: the period in sub-buckets, of which the last ones, including the current one, are summed.
--
-- limit: count, period, parts (the number of sub-buckets)
-- body:  period and parts under which the counts were made, newest (the number of the newest sub-bucket since the
--        epoch), counts (the newest first; missing ones are zero)

do
  -- Returns the number of the sub-bucket that contains an instant.
  local function index(limit, instant)
    local periods, rest = split(instant, limit.period)
    local part = scale_down(rest, limit.parts, limit.period)
    local small = plain(periods) * plain(limit.parts)
    if small < 2 ^ 52 then
      return of(small + part[2])
    end
    return times(periods, limit.parts) + part
  end

  -- Returns the start of a sub-bucket, under the parameters of a limit or of a body.
  local function start_of(parameters, bucket)
    local number, parts, periods, rest = plain(bucket), plain(parameters.parts)
    if number < 2 ^ 53 then
      rest = of(number % parts)
      periods = of((number - rest[2]) / parts)
    else
      periods, rest = split(bucket, parameters.parts)
    end
    return times(periods, parameters.period) + scale_up(rest, parameters.period, parameters.parts)
  end

  local function sum(counts)
    local all = 0
    for age = 1, #counts do
      all = all + counts[age]
    end
    return all
  end

  -- Returns the newest sub-bucket and the counts under the limit's parameters. If others made the body, the sum is
  -- kept, at the time of the newest.
  local function adopted(limit, body)
    if body.parts == limit.parts and body.period == limit.period then
      return body.newest, body.counts
    end
    return index(limit, least(start_of(body, body.newest), END_OF_TIME)), { sum(body.counts) }
  end

  -- Returns a copy of the counts as of now. After a clock was set back, they stay in the newest sub-bucket.
  local function rolled(limit, body, now)
    local current, counts = index(limit, now), {}
    if not body then
      return current, counts
    end
    local newest, before = adopted(limit, body)
    local passed, parts = plain(current - newest), plain(limit.parts)
    if passed == 0 then
      return newest, { unpack(before) }
    end
    for age = 1, passed < parts and passed or 0 do
      counts[age] = 0
    end
    for age = 1, math.min(#before, parts - passed) do
      counts[passed + age] = before[age]
    end
    return current, counts
  end

  -- Returns when at least `excess` of the usage has left the window. Usually that is all of it, which the newest count
  -- determines.
  local function expires_at(limit, newest, counts, used, excess)
    local older = used
    for age = 1, #counts do
      older = older - counts[age]
      if older < excess then
        return start_of(limit, newest + limit.parts - of(age - 1))
      end
    end
    return ZERO
  end

  local function add(counts, age, cost)
    for older = #counts + 1, age do
      counts[older] = 0
    end
    counts[age] = saturated(counts[age] + cost)
  end

  algorithms[SLIDING_COUNTER] = {
    set_up = function(limit)
      limit.parts = limit.words[1]
    end,

    read = function(text, from)
      local ph, pl, nh, nl, parts, length
      ph, pl, nh, nl, parts, length, from = struct.unpack('>I2I6I2I6I2I2', text, from)
      if parts == 0 then
        -- Only a block: earlier releases stored that with empty counters.
        return nil
      end
      local counts = { struct.unpack('>' .. ('I7'):rep(length), text, from) }
      -- The last result is the position after the counts.
      counts[length + 1] = nil
      return { period = wide(ph, pl), parts = of(parts), newest = wide(nh, nl), counts = counts }
    end,

    write = function(body)
      local period, newest, length = body.period, body.newest, #body.counts
      while length > 0 and body.counts[length] == 0 do
        length = length - 1
      end
      return struct.pack('>I2I6I2I6I2I2', period[1], period[2], newest[1], newest[2], plain(body.parts), length)
        .. struct.pack('>' .. ('I7'):rep(length), unpack(body.counts, 1, length))
    end,

    fresh_at = function(limit, body)
      local newest, counts = adopted(limit, body)
      local used = sum(counts)
      return least(expires_at(limit, newest, counts, used, used), END_OF_TIME)
    end,

    decide = function(limit, body, now, ask)
      local newest, counts = rolled(limit, body, now)
      local used, action, cost = sum(counts), ask.action, ask.cost
      local outcome, granted, wait = ALLOWED, 0, ZERO
      if action == DEBIT or action == REFUND then
        local age = 1
        if ask.instant then
          age = plain(newest - index(limit, ask.instant)) + 1
        end
        local in_window = age <= plain(limit.parts)
        if action == REFUND then
          granted = in_window and math.min(counts[age] or 0, cost) or 0
          if granted > 0 then
            add(counts, age, -granted)
          end
        else
          granted = cost
          if in_window then
            add(counts, age, cost)
          end
        end
        used = sum(counts)
      elseif action == RESET then
        used, counts = 0, {}
      else
        local asked
        outcome, granted, asked = admission(limit.count, used, ask)
        if outcome == DENIED then
          wait = expires_at(limit, newest, counts, used, used + asked - limit.count) - now
        elseif outcome == ALLOWED then
          used = used + granted
          add(counts, 1, granted)
        end
      end
      local reset = expires_at(limit, newest, counts, used, used) - now
      -- The newest sub-bucket is stored even without counts, in case the clock is set back.
      return counted(limit.count, used, outcome, granted, wait, reset),
        { period = limit.period, parts = limit.parts, newest = newest, counts = counts }
    end,
  }
end
