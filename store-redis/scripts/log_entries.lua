-- The entries of a sliding log, as one call has them: how they are found and changed. sliding_log.lua decides by them,
-- stored_log.lua reads and writes them.
--
-- body:  source      where entries are read: `key` (nil: none are stored); `start`, the stored ones that were read with
--                    the header, and other blocks, by the place of their first; the `corrections` of the stored ones, in
--                    two lists: the first entry of each range (`from`), and what is added to its sums (`plus`); those
--                    that this call `added`; and the `ranges` and the `form` before it
--        first, last the live entries, counted from 0; those before are expired
--        at, sum     the newest entry, which is `last`
--        past        the sum of the expired entries
--        costless    the instant of the entry without a cost (false: each has one). There is at most one: the last
--                    action, which a gap keeps alone
--        ranges      where the others are, in three lists: the first entry of each range (`from`), what is added to an
--                    index for the place of the entry (`move`), and what is added to its sum (`plus`). An entry is at a
--                    stored place, or from ADDED on in `added`. These are the changes of this call, so they are few

-- The sum of an entry is its own cost and that of all before it, so the cost of any range of entries is a difference,
-- and the entry that reaches a sum is found by binary search. A change in the middle concerns the sums of all entries
-- behind it: it changes a few ranges. A log can be long, so a decision reads only the blocks that it needs.

-- The bytes of the header and of an entry, and the number of entries that are read with the header.
local log = { HEADER = 48, ENTRY = 15, START = 64, ADDED = 2 ^ 40 }

do
  local each = unpack
  local call, unpack = redis.call, struct.unpack
  local HEADER, ENTRY, START, ADDED = log.HEADER, log.ENTRY, log.START, log.ADDED
  -- The number of entries that are read at once, after the first ones.
  local BLOCK = 16

  -- Returns which range an entry is in, by the first entries of the ranges.
  local function range_of(from, index)
    local low, high = 1, #from
    while low < high do
      local middle = floor((low + high + 1) / 2)
      if from[middle] <= index then
        low = middle
      else
        high = middle - 1
      end
    end
    return low
  end

  -- Returns an entry: both words of its instant, and its sum.
  local function entry(body, index)
    if index == body.last then
      return body.at[1], body.at[2], body.sum
    end
    local source, ranges = body.source, body.ranges
    local range = range_of(ranges.from, index)
    local place, plus = index + ranges.move[range], ranges.plus[range]
    if place >= ADDED then
      local own = source.added[place - ADDED]
      return own.at[1], own.at[2], own.sum + plus
    end
    local block, from = source.start, place
    if place >= START then
      from = place % BLOCK
      block = source[place - from]
      if not block then
        local offset = HEADER + (place - from) * ENTRY
        block = call('GETRANGE', source.key, offset, offset + BLOCK * ENTRY - 1)
        source[place - from] = block
      end
    end
    local h, l, sum = unpack('>I2I6I7', block, from * ENTRY + 1)
    local corrections = source.corrections
    return h, l, sum + plus + corrections.plus[range_of(corrections.from, place)]
  end

  -- Returns the first of the entries from `low` to before `high` that satisfies a monotonic condition; `high` if there
  -- is none.
  local function first_between(body, low, high, holds)
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

  -- Returns the first entry that satisfies a monotonic condition; one past the newest if there is none. Usually it is
  -- near the front, so the search starts there with growing steps.
  function log.first_where(body, holds)
    local low, high, step = body.first, body.first, 1
    while high <= body.last and not holds(entry(body, high)) do
      low, high, step = high + 1, high + step, step * 2
    end
    return first_between(body, low, math.min(high, body.last + 1), holds)
  end

  local function is_after(instant)
    local high, low = instant[1], instant[2]
    return function(h, l)
      return high < h or (high == h and low < l)
    end
  end

  -- Returns the first entry after an instant, which is usually near the front.
  function log.first_live(body, expired_at)
    return log.first_where(body, is_after(expired_at))
  end

  -- Returns the first entry after an instant, which may be anywhere. The search starts where it is if the entries are
  -- evenly spread.
  function log.first_after(body, instant)
    local low, high, holds, step = body.first, body.last + 1, is_after(instant), BLOCK
    local h, l = entry(body, low)
    local part = plain(instant - wide(h, l)) / math.max(plain(body.at - wide(h, l)), 1)
    local guess = math.min(low + floor(part * (high - low)), high - 1)
    if holds(entry(body, guess)) then
      high = guess
      while low < high - step and holds(entry(body, high - step)) do
        high, step = high - step, step * 4
      end
      low = math.max(low, high - step)
    else
      low = guess + 1
      while low + step < high and not holds(entry(body, low + step)) do
        low, step = low + step + 1, step * 4
      end
      high = math.min(high, low + step)
    end
    return first_between(body, low, high, holds)
  end

  -- Returns the first entry whose sum exceeds another. It may be anywhere.
  function log.first_above(body, sum)
    return first_between(body, body.first, body.last + 1, function(_, _, upto)
      return sum < upto
    end)
  end

  log.entry, log.range_of = entry, range_of

  -- Returns the sum of all entries before one.
  function log.sum_before(body, index)
    if index == body.first then
      return body.past
    end
    local _, _, sum = entry(body, index - 1)
    return sum
  end

  -- Returns whether the newest entry has a cost.
  function log.is_paid(body)
    return body.costless ~= body.at
  end

  -- Returns a log of one entry.
  function log.of_one(at, cost)
    return {
      source = { added = {} }, first = 0, last = 0, at = at, sum = cost, past = 0, costless = false,
      ranges = { from = {}, move = {}, plus = {} },
    }
  end

  -- Returns the log with the entries from `from` to before `to` replaced by others, each { at, sum }, and with `plus`
  -- added to the sums of all behind them; nil if none is left.
  function log.replaced(body, from, to, own, plus)
    local last, at, sum = body.last + from + #own - to, body.at, body.sum + plus
    if last < body.first then
      return nil
    end
    if from > body.last then
      -- The newest entry is no longer the newest, and so is one of those that have a place.
      from, own = body.last, { { at = body.at, sum = body.sum }, own[1], own[2] }
    end
    if to > body.last then
      local newest = own[#own]
      if newest then
        at, sum = newest.at, newest.sum
      else
        local h, l
        h, l, sum = entry(body, from - 1)
        at = wide(h, l)
      end
    end
    local old, added, move = body.ranges, body.source.added, last - body.last
    local starts, moves, corrections = old.from, old.move, old.plus
    local size = starts[1] and starts[1] < from and range_of(starts, from - 1) or 0
    local first, by, plus_of = { each(starts, 1, size) }, { each(moves, 1, size) }, { each(corrections, 1, size) }
    if #own > 0 then
      size = size + 1
      first[size], by[size], plus_of[size] = from, ADDED + #added + 1 - from, 0
      for i = 1, #own do
        added[#added + 1] = own[i]
      end
    end
    if to < body.last then
      for i = range_of(starts, to), #starts do
        size = size + 1
        first[size], by[size], plus_of[size] = starts[i] + move, moves[i] - move, corrections[i] + plus
        if starts[i] < to then
          first[size] = to + move
        end
      end
    end
    local ranges = { from = first, move = by, plus = plus_of }
    return changed(body, { last = last, at = at, sum = sum, ranges = ranges })
  end
end
