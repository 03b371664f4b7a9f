-- Sliding counter: the period in sub-buckets; the last ones, including the current one, are summed.
--
-- limit: count, period, words[1] (how many sub-buckets)
-- body: period and parts that its counts were made with, newest (the sub-bucket of the first count, numbered since the
--   epoch), counts (the newest first; those that are not there are zero)

do
  -- Which sub-bucket an instant lies in.
  local function index(limit, instant)
    local periods, rest = split(instant, limit.period)
    local part = scale_down(rest, limit.parts, limit.period)
    local small = plain(periods) * plain(limit.parts)
    if small < 2 ^ 52 then
      return of(small + part[2])
    end
    return times(periods, limit.parts) + part
  end

  -- When a sub-bucket begins, under the numbers of a limit or of a body.
  local function begin(numbers, bucket)
    local number, parts, periods, rest = plain(bucket), plain(numbers.parts)
    if number < 2 ^ 53 then
      rest = of(number % parts)
      periods = of((number - rest[2]) / parts)
    else
      periods, rest = split(bucket, numbers.parts)
    end
    return times(periods, numbers.period) + scale_up(rest, numbers.period, numbers.parts)
  end

  local function sum(counts)
    local all = 0
    for age = 1, #counts do
      all = all + counts[age]
    end
    return all
  end

  -- Where other numbers made a body, the count is kept, as of the time of the newest.
  local function adopted(limit, body)
    if body.parts == limit.parts and body.period == limit.period then
      return body.newest, body.counts
    end
    return index(limit, least(begin(body, body.newest), END_OF_TIME)), { sum(body.counts) }
  end

  -- The counts as of now, a copy. A clock that was set back stays in the newest sub-bucket.
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

  -- When at least `excess` of what is used has gone out of sight. Mostly all of it is asked for, which the youngest tells.
  local function when_gone(limit, newest, counts, used, excess)
    local older = used
    for age = 1, #counts do
      older = older - counts[age]
      if older < excess then
        return begin(limit, newest + limit.parts - of(age - 1))
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

  algorithms[7] = {
    set_up = function(limit)
      limit.parts = limit.words[1]
    end,

    read = function(text, from)
      local ph, pl, nh, nl, parts, length
      ph, pl, nh, nl, parts, length, from = struct.unpack('>I2I6I2I6I2I2', text, from)
      if parts == 0 then
        -- The counters of a state that was merged and is only a block.
        return nil
      end
      local counts = { struct.unpack('>' .. ('I7'):rep(length), text, from) }
      -- What comes last says where the text goes on.
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
      return least(when_gone(limit, newest, counts, used, used), END_OF_TIME)
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
        local in_sight = age <= plain(limit.parts)
        if action == REFUND then
          granted = in_sight and math.min(counts[age] or 0, cost) or 0
          if granted > 0 then
            add(counts, age, -granted)
          end
        else
          granted = cost
          if in_sight then
            add(counts, age, cost)
          end
        end
        used = sum(counts)
      elseif action == FORGET then
        used, counts = 0, {}
      else
        local asked
        outcome, granted, asked = admission(limit.count, used, ask)
        if outcome == DENIED then
          wait = when_gone(limit, newest, counts, used, used + asked - limit.count) - now
        elseif outcome == ALLOWED then
          used = used + granted
          add(counts, 1, granted)
        end
      end
      local reset = when_gone(limit, newest, counts, used, used) - now
      -- Without a count too it remembers which sub-bucket is the newest, for a clock that is set back.
      return counted(limit.count, used, outcome, granted, wait, reset),
        { period = limit.period, parts = limit.parts, newest = newest, counts = counts }
    end,
  }
end
