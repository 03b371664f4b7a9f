-- Sliding log: exact instants, so never more than the count in any period. Optionally, denied actions count as well,
-- and there is a minimum gap between actions.
--
-- limit: count, period, gap, count_denied
-- value: '>B I2I6 I2I6 I4 I4 I2I6 I7 I7 B'  version, fresh, blocked, the number of expired entries at the front, the
--        number of live ones (0: there is no body), instant and sum of the newest entry, the sum of the expired ones,
--        whether the newest has a cost; then all entries except the newest, the oldest first, each '>I2I6 I7': an
--        instant and a sum; after them may be the remains of refunded entries, which are ignored
-- body:  source      where stored entries are read (nil: there are none)
--        first, last the live entries, counted from 0; those before are expired
--        at, sum     the newest entry, which is `last`
--        past, paid  the sum of the expired entries, and whether the newest has a cost
--        kept, tail  entries before `kept` are stored; those from there on, except the newest, are in `tail`
--
-- The sum of an entry is its own cost and that of all before it, so the cost of any range of entries is a difference,
-- and the entry that reaches a sum is found by binary search. A log can be long: a decision reads only the blocks that
-- it needs, and only differences are written.

do
  local call, pack, unpack = redis.call, struct.pack, struct.unpack
  local HEADER, ENTRY = 48, 15
  -- The number of entries that are read at once.
  local BLOCK = 64
  -- A log of up to this many entries is written as a whole, which is one command instead of three.
  local FEW = 32
  -- How many entries a log may have beyond its count.
  local MAX_DEBT_ENTRIES = 64
  -- Sums are rebased to zero from here on, long before they would be inexact.
  local LARGE = 2 ^ 51

  local function entry(body, index)
    if index == body.last then
      return body.at, body.sum
    elseif index >= body.kept then
      local own = body.tail[index - body.kept + 1]
      return own.at, own.sum
    end
    local source, number = body.source, floor(index / BLOCK)
    local block = source[number]
    if not block then
      local from = HEADER + number * BLOCK * ENTRY
      block = call('GETRANGE', source.key, from, from + BLOCK * ENTRY - 1)
      source[number] = block
    end
    local h, l, sum = unpack('>I2I6I7', block, index % BLOCK * ENTRY + 1)
    return wide(h, l), sum
  end

  -- Returns the first entry that satisfies a monotonic condition; one past the newest if there is none. Usually it is
  -- near the front, so the search starts there with growing steps.
  local function first_where(body, holds)
    local low, high, step = body.first, body.first, 1
    while high <= body.last and not holds(entry(body, high)) do
      low, high, step = high + 1, high + step, step * 2
    end
    high = math.min(high, body.last + 1)
    while low < high do
      local middle = floor((low + high) / 2)
      if holds(entry(body, middle)) then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  local function first_after(body, instant)
    return first_where(body, function(at)
      return instant < at
    end)
  end

  -- Returns the sum of all entries before one.
  local function sum_before(body, index)
    if index == body.first then
      return body.past
    end
    local _, sum = entry(body, index - 1)
    return sum
  end

  -- Returns the log with its entries from an index on replaced; nil if none is left.
  local function with_rest(body, from, rest)
    if from == body.first and #rest == 0 then
      return nil
    end
    local kept, tail = math.min(body.kept, from), {}
    for i = kept, from - 1 do
      local at, sum = entry(body, i)
      tail[#tail + 1] = { at = at, sum = sum }
    end
    for _, own in ipairs(rest) do
      tail[#tail + 1] = own
    end
    local newest = table.remove(tail)
    if not newest then
      kept = kept - 1
      local at, sum = entry(body, kept)
      newest = { at = at, sum = sum }
    end
    local after = changed(body, { kept = kept, tail = tail, last = kept + #tail, at = newest.at, sum = newest.sum })
    after.paid = sum_before(after, after.last) < after.sum
    return after
  end

  -- Adds an action in order. Actions of the same instant are one entry.
  local function add(body, at, cost)
    if not body then
      return { first = 0, last = 0, at = at, sum = cost, past = 0, paid = true, kept = 0, tail = {} }
    end
    cost = saturated(body.sum + cost) - body.sum
    if at == body.at then
      return changed(body, { sum = body.sum + cost, paid = true })
    end
    local after = at < body.at and first_after(body, at) or body.last + 1
    local from, before = after, body.past
    if after > body.first then
      local last, sum = entry(body, after - 1)
      from, before = last == at and after - 1 or after, sum
    end
    local rest = { { at = at, sum = before + cost } }
    for i = after, body.last do
      local later, sum = entry(body, i)
      rest[#rest + 1] = { at = later, sum = sum + cost }
    end
    return with_rest(body, from, rest)
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
    local left, from = sum - refunded, stop
    while from > body.first and left < select(2, entry(body, from - 1)) do
      from = from - 1
    end
    local rest, before = {}, sum_before(body, from)
    for i = from, stop - 1 do
      local then_at, upto = entry(body, i)
      -- An entry without a cost stays: it is the last action, kept for the gap.
      if before < left or before == upto then
        rest[#rest + 1] = { at = then_at, sum = left }
      end
      before = upto
    end
    for i = stop, body.last do
      local later, upto = entry(body, i)
      rest[#rest + 1] = { at = later, sum = upto - refunded }
    end
    return refunded, with_rest(body, from, rest)
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
      elseif body.first == body.last and not body.paid then
        return body
      end
      -- The last action is kept for the gap, without a cost.
      return changed(body, { first = body.last, past = body.sum, paid = false })
    end
    local first = first_after(body, expired_at)
    if first == body.first then
      return body
    end
    return changed(body, { first = first, past = sum_before(body, first) })
  end

  -- Keeps only the newest actions, up to the count, after a denied action was added.
  local function keep_newest(limit, body)
    local past = body.sum - limit.count
    if past <= body.past then
      return body
    end
    local first = first_where(body, function(_, sum)
      return past <= sum
    end)
    if select(2, entry(body, first)) == past then
      first = first + 1
    end
    return changed(body, { first = first, past = past })
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
    local beyond = first_where(body, function(_, sum)
      return debt < sum - body.past
    end)
    return changed(body, { first = math.max(beyond - 1, body.first) })
  end

  -- Returns when the gap after the newest entry ends; zero if there is no minimum gap.
  local function gap_ends_at(limit, body)
    return ZERO < limit.gap and body.at + limit.gap or ZERO
  end

  local function fresh_at(limit, body)
    local span = body.paid and most(limit.period, limit.gap) or limit.gap
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
    local index = first_where(body, function(_, sum)
      return excess <= sum - body.past
    end)
    if index > body.last then
      return apart
    end
    return most(apart, entry(body, index) + limit.period)
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

  local function packed(entries, from)
    local parts = {}
    for i = from, #entries do
      local own = entries[i]
      parts[#parts + 1] = pack('>I2I6I7', own.at[1], own.at[2], own.sum)
    end
    return table.concat(parts)
  end

  local function header(state, first)
    local body = state.body or { first = 0, last = -1, at = ZERO, sum = 0, past = 0 }
    return pack('>BI2I6I2I6I4I4I2I6I7I7B', VERSION, state.fresh[1], state.fresh[2], state.blocked[1], state.blocked[2],
      first, body.last - body.first + 1, body.at[1], body.at[2], body.sum, body.past, body.paid and 1 or 0)
  end

  -- Returns the log with its sums counted from its first entry.
  local function rebased(body)
    local tail = {}
    for i = body.first, body.last - 1 do
      local at, sum = entry(body, i)
      tail[#tail + 1] = { at = at, sum = sum - body.past }
    end
    return {
      first = 0, last = #tail, at = body.at, sum = used(body), past = 0, paid = body.paid, kept = 0, tail = tail,
    }
  end

  -- Returns the live entries except the newest, encoded.
  local function live(body)
    if body.first >= body.kept then
      return packed(body.tail, body.first - body.kept + 1)
    end
    local from, to = body.first * ENTRY, body.kept * ENTRY
    local stored
    if body.kept <= BLOCK and body.source[0] then
      stored = body.source[0]:sub(from + 1, to)
    else
      stored = call('GETRANGE', body.source.key, HEADER + from, HEADER + to - 1)
    end
    return stored .. packed(body.tail, 1)
  end

  algorithms[SLIDING_LOG] = {
    set_up = function(limit)
      limit.gap = limit.words[1]
      limit.count_denied = limit.flags % 2 == 1
    end,

    load = function(_, key)
      local text = call('GETRANGE', key, 0, HEADER + BLOCK * ENTRY - 1)
      if text == '' then
        return nil
      end
      local version = text:byte()
      check_version(version)
      local fresh_h, fresh_l, blocked_h, blocked_l, from = unpack('>I2I6I2I6', text, 2)
      local first, count, h, l, sum, past, paid = unpack('>I4I4I2I6I7I7B', text, from)
      local last, body = first + count - 1, nil
      if count > 0 then
        local source = { key = key, [0] = text:sub(HEADER + 1) }
        body = {
          source = source, first = first, last = last, at = wide(h, l), sum = sum, past = past, paid = paid == 1,
          kept = last, tail = {},
        }
      end
      return {
        body = body, blocked = wide(blocked_h, blocked_l), fresh = wide(fresh_h, fresh_l), header = text:sub(1, HEADER),
      }
    end,

    save = function(_, key, before, state, ttl, now)
      local body = state.body
      if not body and state.blocked <= now then
        if before then
          call('DEL', key)
        end
        return
      end
      if not body then
        local text = header(state, 0)
        if not before or text ~= before.header then
          call('SET', key, text, 'PX', ttl)
        end
        return
      end
      if body.past >= LARGE then
        body = rebased(body)
        state = { body = body, blocked = state.blocked, fresh = state.fresh }
      end
      local count = body.last - body.first
      if body.source and #body.tail == 0 and header(state, body.first) == before.header then
        return
      elseif not body.source or count <= FEW or count < body.first then
        -- Expired entries are dropped once they are the larger part, which is rare.
        call('SET', key, header(state, 0) .. live(body), 'PX', ttl)
        return
      end
      call('SETRANGE', key, 0, header(state, body.first))
      if #body.tail > 0 then
        call('SETRANGE', key, HEADER + body.kept * ENTRY, packed(body.tail, 1))
      end
      call('PEXPIRE', key, ttl)
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
