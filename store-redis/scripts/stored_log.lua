-- A sliding log as it is stored.
--
-- value: '>B I2I6 I2I6 I4 I4 I2I6 I7 I7 B'  version, fresh, blocked, the number of expired entries at the front, the
--        number of live ones (0: there is no body), instant and sum of the newest entry, the sum of the expired ones,
--        and the form: 1 every entry has a cost; 0 the newest has none; 2 there is a trailer; then
--        all entries except the newest, the oldest first, each '>I2I6 I7': an instant and a sum; then
--        the trailer, '>I2I6 I4': the instant of the entry without a cost (all ones: each has one) and the number of
--        corrections, each '>I4 d': an index, and what is added to the sums of the entries from there to the next
--        index; after all that may be the remains of refunded entries, which are ignored
--
-- Only differences are written. After a change in the middle, the entries behind it are moved together, and their sums
-- get a correction. Short scripts leave a log with a trailer to the general one.

do
  local call, pack, unpack = redis.call, struct.pack, struct.unpack
  local HEADER, ENTRY, START, ADDED = log.HEADER, log.ENTRY, log.START, log.ADDED
  local range_of = log.range_of
  local EACH_COSTS, NEWEST_COSTLESS, WITH_TRAILER = 1, 0, 2
  -- The number of entries that are moved at once: to create a long string takes Lua longer than the move.
  local CHUNK = 1024
  -- A log of up to this many entries is written as a whole, which is one command instead of three; one of up to so many
  -- when expired entries are dropped, which frees their memory.
  local FEW, MANY = 32, 1024
  -- A range of fewer entries gets no correction of its own: it is rewritten with that of the range before it. So a log
  -- of 100 thousand entries has at most 800 corrections, and a change rewrites at most twice as many entries as this.
  local SHORT = 128
  -- How many entries each write moves from one range to that before it. Sooner or later one range is left, and short
  -- scripts decide again.
  local ABSORBED = 512
  -- Sums are rebased to zero from here on, long before they would be inexact.
  local LARGE = 2 ^ 51
  local NO_INSTANT = wide(2 ^ 16 - 1, BASE - 1)

  -- Returns the log with its sums counted from its first entry.
  local function rebased(body)
    local old, plus = body.ranges, {}
    for i = 1, #old.plus do
      plus[i] = old.plus[i] - body.past
    end
    local ranges = { from = old.from, move = old.move, plus = plus }
    return changed(body, { ranges = ranges, sum = body.sum - body.past, past = 0 })
  end

  local function stored(source, place, count)
    local from, to = place * ENTRY, (place + count) * ENTRY
    if place + count <= START then
      return source.start:sub(from + 1, to)
    end
    return call('GETRANGE', source.key, HEADER + from, HEADER + to - 1)
  end

  -- Eight entries, which take a third less time together.
  local EIGHT = '>' .. ('c8I7'):rep(8)
  local function corrected(by, a, sum_a, b, sum_b, c, sum_c, d, sum_d, e, sum_e, f, sum_f, g, sum_g, h, sum_h)
    return pack(EIGHT, a, sum_a + by, b, sum_b + by, c, sum_c + by, d, sum_d + by, e, sum_e + by, f, sum_f + by,
      g, sum_g + by, h, sum_h + by)
  end

  -- Arranges the live entries except the newest for writing, the first of them at `index`. Returns what to write, a
  -- list of { index, text }; what to move, a list of { place, index, count }; and the corrections, a list of
  -- { index, plus }. If everything is written, that is one text. Few entries get no corrections.
  local function arranged(body, index, is_all, is_few)
    local source, ranges = body.source, body.ranges
    local writes, moves, corrections, absorbs = {}, {}, {}, true
    -- The texts that are not in `writes` yet.
    local texts, start = {}, index
    -- What is added to the sums that are being written.
    local plus = is_few and 0 or nil

    local function end_write()
      if #texts > 0 then
        writes[#writes + 1] = { index = start, text = table.concat(texts) }
        texts = {}
      end
    end

    local function correct(correction)
      plus = correction
      corrections[#corrections + 1] = { index = index, plus = correction }
    end

    local function put(at, sum)
      if not plus or (plus ~= 0 and sum - plus >= LARGE) then
        correct(0)
      end
      texts[#texts + 1] = pack('>c8I7', at, sum - plus)
      index = index + 1
    end

    local function rewrite(from, number, correction)
      local text, done = stored(source, from, number), 0
      local _, upto = unpack('>c8I7', text, (number - 1) * ENTRY + 1)
      local by = correction - plus
      if plus == 0 or upto + by < LARGE then
        while done + 8 <= number do
          texts[#texts + 1] = corrected(by, unpack(EIGHT, text, done * ENTRY + 1))
          done, index = done + 8, index + 8
        end
      end
      for i = done, number - 1 do
        local at, sum = unpack('>c8I7', text, i * ENTRY + 1)
        put(at, sum + correction)
      end
    end

    local function keep(from, number, correction)
      if plus ~= correction then
        correct(correction)
      end
      if is_all then
        texts[#texts + 1] = stored(source, from, number)
      else
        end_write()
        start = index + number
        local last = moves[#moves]
        if last and last.place + last.count == from and last.index + last.count == index then
          last.count = last.count + number
        elseif from ~= index then
          moves[#moves + 1] = { place = from, index = index, count = number }
        end
      end
      index = index + number
    end

    -- Arranges stored entries with the same correction.
    local function arrange(from, number, correction)
      local rewritten = 0
      if plus and plus ~= correction then
        if is_few or number < SHORT then
          rewritten = number
        elseif absorbs then
          rewritten, absorbs = number < ABSORBED + SHORT and number or ABSORBED, false
        end
      end
      if rewritten > 0 then
        rewrite(from, rewritten, correction)
      end
      if number > rewritten then
        keep(from + rewritten, number - rewritten, correction)
      end
    end

    for i = range_of(ranges.from, body.first), #ranges.from do
      local first = math.max(ranges.from[i], body.first)
      local to, from = math.min(ranges.from[i + 1] or body.last, body.last), first + ranges.move[i]
      to = to + ranges.move[i]
      if from >= ADDED then
        for j = from - ADDED, to - ADDED - 1 do
          local own = source.added[j]
          put(pack('>I2I6', own.at[1], own.at[2]), own.sum + ranges.plus[i])
        end
      elseif from < to then
        local stored_from, stored_plus = source.corrections.from, source.corrections.plus
        for j = range_of(stored_from, from), #stored_from do
          if from >= to then
            break
          end
          local stop = math.min(stored_from[j + 1] or to, to)
          arrange(from, stop - from, stored_plus[j] + ranges.plus[i])
          from = stop
        end
      end
    end
    end_write()
    return writes, moves, corrections
  end

  -- Moves stored entries, the last first if they move back.
  local function move_chunks(key, move, is_back)
    local done = 0
    while done < move.count do
      local count = math.min(CHUNK, move.count - done)
      local from = is_back and move.count - done - count or done
      local offset = HEADER + (move.place + from) * ENTRY
      local text = call('GETRANGE', key, offset, offset + count * ENTRY - 1)
      call('SETRANGE', key, HEADER + (move.index + from) * ENTRY, text)
      done = done + count
    end
  end

  -- Moves ranges of stored entries, in an order in which none is overwritten before it is moved: those that move back
  -- start with the last, the others with the first.
  local function move_all(key, moves)
    for i = #moves, 1, -1 do
      if moves[i].place < moves[i].index then
        move_chunks(key, moves[i], true)
      end
    end
    for i = 1, #moves do
      if moves[i].index < moves[i].place then
        move_chunks(key, moves[i], false)
      end
    end
  end

  local function header(state, body, first, form)
    body = body or { first = first, last = first - 1, at = ZERO, sum = 0, past = 0 }
    return pack('>BI2I6I2I6I4I4I2I6I7I7B', VERSION, state.fresh[1], state.fresh[2], state.blocked[1], state.blocked[2],
      first, body.last - body.first + 1, body.at[1], body.at[2], body.sum, body.past, form)
  end

  -- Returns the trailer and the form of a log.
  local function trailer_of(body, corrections)
    local is_paid = log.is_paid(body)
    if #corrections == 0 and (not body.costless or not is_paid) then
      return '', is_paid and EACH_COSTS or NEWEST_COSTLESS
    end
    local costless = body.costless or NO_INSTANT
    local parts = { pack('>I2I6I4', costless[1], costless[2], #corrections) }
    for i = 1, #corrections do
      parts[i + 1] = pack('>I4d', corrections[i].index, corrections[i].plus)
    end
    return table.concat(parts), WITH_TRAILER
  end

  local function load_trailer(body)
    local source, from, at = body.source, HEADER + body.last * ENTRY, 1
    local h, l, count = unpack('>I2I6I4', call('GETRANGE', source.key, from, from + 11))
    local costless = wide(h, l)
    body.costless = costless ~= NO_INSTANT and costless
    local text = call('GETRANGE', source.key, from + 12, from + 11 + count * 12)
    local starts, plus = source.corrections.from, source.corrections.plus
    for i = 1, count do
      starts[i], plus[i], at = unpack('>I4d', text, at)
    end
  end

  -- Returns the stored state of a log; nil if there is none.
  function log.load(key)
    local text = call('GETRANGE', key, 0, HEADER + START * ENTRY - 1)
    if text == '' then
      return nil
    end
    local version = text:byte()
    check_version(version)
    local fresh_h, fresh_l, blocked_h, blocked_l, from = unpack('>I2I6I2I6', text, 2)
    local first, count, h, l, sum, past, form = unpack('>I4I4I2I6I7I7B', text, from)
    local body = nil
    if count > 0 then
      local ranges, at = { from = { 0 }, move = { 0 }, plus = { 0 } }, wide(h, l)
      body = {
        source = {
          key = key, start = text:sub(HEADER + 1), corrections = { from = { 0 }, plus = { 0 } }, added = {},
          ranges = ranges, form = form,
        },
        first = first, last = first + count - 1, at = at, sum = sum, past = past,
        costless = form == NEWEST_COSTLESS and at, ranges = ranges,
      }
      if form == WITH_TRAILER then
        load_trailer(body)
      end
    end
    return {
      body = body, blocked = wide(blocked_h, blocked_l), fresh = wide(fresh_h, fresh_l), header = text:sub(1, HEADER),
    }
  end

  -- Writes the differences between two states of a log.
  function log.save(key, before, state, ttl, now)
    local body = state.body
    if not body then
      if state.blocked > now then
        local text = header(state, nil, 0, EACH_COSTS)
        if not before or text ~= before.header then
          call('SET', key, text, 'PX', ttl)
        end
      elseif before then
        call('DEL', key)
      end
      return
    end
    local source, count = body.source, body.last - body.first
    if body.ranges == source.ranges and header(state, body, body.first, source.form) == before.header then
      return
    end
    if body.past >= LARGE then
      body = rebased(body)
    end
    -- Expired entries are dropped once they are the larger part, which is rare. Of a long log the others are moved in
    -- place, which leaves bytes behind it.
    local drops = count < body.first
    local is_all = not source.key or count <= FEW or (drops and count <= MANY)
    local first = (is_all or drops) and 0 or body.first
    local writes, moves, corrections = arranged(body, first, is_all, count <= FEW)
    if #corrections == 1 then
      -- One that concerns all sums is none, if those in the header can follow.
      local plus = corrections[1].plus
      if plus <= body.past and (plus >= 0 or body.sum - plus < LARGE) then
        body, corrections = changed(body, { sum = body.sum - plus, past = body.past - plus }), {}
      end
    end
    local trailer, form = trailer_of(body, corrections)
    local head = header(state, body, first, form)
    if is_all then
      local entries = writes[1] and writes[1].text or ''
      call('SET', key, head .. entries .. trailer, 'PX', ttl)
      return
    end
    move_all(key, moves)
    call('SETRANGE', key, 0, head)
    for i = 1, #writes do
      call('SETRANGE', key, HEADER + writes[i].index * ENTRY, writes[i].text)
    end
    if trailer ~= '' then
      call('SETRANGE', key, HEADER + (first + count) * ENTRY, trailer)
    end
    call('PEXPIRE', key, ttl)
  end
end
