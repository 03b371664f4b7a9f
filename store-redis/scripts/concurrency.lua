-- Concurrency: at most so many in flight. Each holds a lease with an expiry, so that the place of a holder that crashed
-- comes back.
--
-- limit: count, lease (how long one lasts unless it is renewed)
-- value: a sorted set, all scores zero, so that its members are in the order of their bytes:
--        'h' '>B I2I6 I2I6 I2I6 I7'  version, fresh, blocked, the latest expiry, how many places are taken
--        'l' '>I2I6 c16 I4'          a lease: expiry, id, places; the earliest expiry first
--        'n' '>c16 I2I6 I4'          the same lease, to find it by its name
-- body:  source         where the server's leases are read (nil: it has none)
--        ended          how many of them, from the front, have ended
--        used, latest   as in the value
--        loose          the lease with the latest expiry was taken out, and nobody has looked yet for the one before it
--        changes        the newest change, { name, lease (nil: taken out), older }, before it the older ones
--
-- There can be many leases: a few are read with the header, others when a decision needs them, and only changes are written.

do
  local each = unpack
  local call, pack, unpack = redis.call, struct.pack, struct.unpack
  -- Leases that are read with the header, and the most that are read or written at once.
  local FEW, MANY = 7, 500
  -- After every member that begins alike.
  local LAST = ('\255'):rep(13)
  local EMPTY = { ended = 0, used = 0, latest = ZERO, loose = false }

  -- Anonymous places that end together are one lease.
  local function name_of(id, expires)
    return id == ANONYMOUS and id .. pack('>I2I6', expires[1], expires[2]) or id
  end

  local function in_order(lease)
    return 'l' .. pack('>I2I6c16I4', lease.expires[1], lease.expires[2], lease.id, lease.places)
  end

  local function by_name(lease)
    return 'n' .. pack('>c16I2I6I4', lease.id, lease.expires[1], lease.expires[2], lease.places)
  end

  local function read_in_order(member)
    local h, l, id, places = unpack('>I2I6c16I4', member, 2)
    return { expires = wide(h, l), id = id, places = places }
  end

  -- Takes in members, which are in order: after the leases come those that find them by name.
  local function take_in(source, members, from)
    for i = from, #members do
      if members[i]:byte() ~= ('l'):byte() then
        source.complete = true
        return
      end
      source[#source + 1] = read_in_order(members[i])
    end
  end

  -- A lease that the server has, by the order of expiry.
  local function stored(source, index)
    while source and index > #source and not source.complete do
      -- The header has rank 0.
      local from = #source + 1
      local members = call('ZRANGE', source.key, from, from + math.min(#source + FEW, MANY))
      source.complete = #members == 0
      take_in(source, members, 1)
    end
    return source and source[index]
  end

  local function stored_by_name(source, name)
    local lease = source.named[name]
    if lease == nil then
      local member = call('ZRANGEBYLEX', source.key, '[n' .. name, '[n' .. name .. LAST, 'LIMIT', 0, 1)[1]
      lease = false
      if member then
        local id, h, l, places = unpack('>c16I2I6I4', member, 2)
        lease = { expires = wide(h, l), id = id, places = places }
      end
      source.named[name] = lease
    end
    return lease
  end

  local function held_as(body, name, now)
    local change = body.changes
    while change do
      if change.name == name then
        return change.lease
      end
      change = change.older
    end
    local lease = body.source and stored_by_name(body.source, name)
    return lease and now < lease.expires and lease or nil
  end

  -- Nobody can name an anonymous lease.
  local function held_by(body, id, now)
    return id ~= ANONYMOUS and held_as(body, id, now) or nil
  end

  -- What became of every lease that was changed, by name: the lease, or false if it was taken out.
  local function outcome_of(changes)
    local all = {}
    while changes do
      if all[changes.name] == nil then
        all[changes.name] = changes.lease or false
      end
      changes = changes.older
    end
    return all
  end

  local function change(body, name, lease)
    local older = body.changes
    if older and older.name == name then
      older = older.older
    end
    return { name = name, lease = lease, older = older }
  end

  local function without(body, lease)
    return changed(body, {
      used = body.used - lease.places, loose = body.loose or lease.expires == body.latest,
      changes = change(body, name_of(lease.id, lease.expires), nil),
    })
  end

  local function with_lease(body, id, expires, places, now)
    local name, sum = name_of(id, expires), places
    if id == ANONYMOUS then
      local same = held_as(body, name, now)
      sum = same and same.places + places or places
    end
    local last = body.latest <= expires
    return changed(body, {
      used = body.used + places, latest = last and expires or body.latest, loose = not last and body.loose,
      changes = change(body, name, { expires = expires, id = id, places = sum }),
    })
  end

  -- What is left of the leases now.
  local function swept(body, now)
    local ended, used = body.ended, body.used
    local lease = stored(body.source, ended + 1)
    while lease and lease.expires <= now do
      ended, used = ended + 1, used - lease.places
      lease = stored(body.source, ended + 1)
    end
    return ended == body.ended and body or changed(body, { ended = ended, used = used })
  end

  -- The latest expiry, looked for from the end on.
  local function latest_of(body)
    local all, latest = outcome_of(body.changes), ZERO
    for _, lease in pairs(all) do
      latest = lease and most(latest, lease.expires) or latest
    end
    -- Every lease is there twice, and the header has rank 0.
    local to = body.source and (call('ZCARD', body.source.key) - 1) / 2 or 0
    local size = FEW
    while to > body.ended do
      local from = math.max(to - size, body.ended + 1)
      local members = call('ZRANGE', body.source.key, from, to)
      for i = #members, 1, -1 do
        local lease = read_in_order(members[i])
        if all[name_of(lease.id, lease.expires)] == nil then
          return most(latest, lease.expires)
        end
      end
      to, size = from - 1, math.min(2 * size, MANY)
    end
    return latest
  end

  local function settled(body)
    if not body.loose or body.used == 0 then
      return body
    end
    return changed(body, { latest = latest_of(body), loose = false })
  end

  -- When so many places will be free at the latest: nobody knows when work ends, but its lease does.
  local function free_at(body, places)
    local all, own = outcome_of(body.changes), {}
    -- What one call adds ends together, as a rule.
    for _, lease in pairs(all) do
      if lease then
        local together
        for _, other in ipairs(own) do
          together = together or (other.expires == lease.expires and other)
        end
        if together then
          together.places = together.places + lease.places
        else
          own[#own + 1] = { expires = lease.expires, places = lease.places }
        end
      end
    end
    table.sort(own, function(a, b)
      return a.expires < b.expires
    end)
    local index, turn, last = body.ended + 1, 1, ZERO
    while places > 0 do
      local theirs, ours = stored(body.source, index), own[turn]
      if theirs and body.changes and all[name_of(theirs.id, theirs.expires)] ~= nil then
        index = index + 1
      elseif theirs and not (ours and ours.expires < theirs.expires) then
        places, last, index = places - theirs.places, theirs.expires, index + 1
      elseif ours then
        places, last, turn = places - ours.places, ours.expires, turn + 1
      else
        break
      end
    end
    return last
  end

  local function fresh_at(_, body)
    return least(body.latest, END_OF_TIME)
  end

  -- The decision, and the body; leases that are none are no body.
  local function answer(limit, body, now, outcome, granted, wait)
    body = settled(body)
    local left = body.used > 0 and body or nil
    local reset = left and fresh_at(limit, left) - now or ZERO
    return counted(limit.count, body.used, outcome, granted, wait, reset), left
  end

  local function take(limit, body, now, cost, id)
    local asked = math.max(cost, 1)
    if asked > limit.count then
      return answer(limit, body, now, NEVER_FITS, 0, ZERO)
    end
    -- Who asks again for a lease they hold keeps it, for as much as they ask now.
    local mine = cost > 0 and held_by(body, id, now)
    local others = mine and without(body, mine) or body
    local excess = others.used + asked - limit.count
    if excess > 0 then
      return answer(limit, body, now, DENIED, 0, free_at(others, excess) - now)
    end
    if cost > 0 then
      body = with_lease(others, id, now + limit.lease, cost, now)
    end
    return answer(limit, body, now, ALLOWED, cost, ZERO)
  end

  -- Calls with many arguments, as often as it takes.
  local function in_parts(command, key, all)
    for from = 1, #all, 2 * MANY do
      call(command, key, each(all, from, math.min(from + 2 * MANY - 1, #all)))
    end
  end

  local function header(state)
    local latest, used = ZERO, 0
    if state.body then
      latest, used = state.body.latest, state.body.used
    end
    return 'h' .. pack('>BI2I6I2I6I2I6I7', VERSION, state.fresh[1], state.fresh[2], state.blocked[1], state.blocked[2],
      latest[1], latest[2], used)
  end

  algorithms[12] = {
    set_up = function(limit)
      limit.lease = limit.words[1]
    end,

    load = function(_, key)
      local members = call('ZRANGE', key, 0, FEW)
      if #members == 0 then
        return nil
      end
      local _, version = unpack('BB', members[1])
      check_version(version)
      local fresh_h, fresh_l, blocked_h, blocked_l, h, l, used = unpack('>I2I6I2I6I2I6I7', members[1], 3)
      local body
      if used > 0 then
        local source = { key = key, named = {} }
        take_in(source, members, 2)
        body = { source = source, ended = 0, used = used, latest = wide(h, l), loose = false }
      end
      return { body = body, blocked = wide(blocked_h, blocked_l), fresh = wide(fresh_h, fresh_l), header = members[1] }
    end,

    save = function(_, key, before, state, ttl, now)
      local body, head = state.body, header(state)
      local source = body and body.source
      if not body and before and before.header == head then
        return
      elseif before and not source then
        -- There can be many leases, and they can be freed in the background.
        call('UNLINK', key)
      end
      if not body and state.blocked <= now then
        return
      end
      local old, new = {}, {}
      local function put(member)
        new[#new + 1] = 0
        new[#new + 1] = member
      end
      local function remove(lease)
        old[#old + 1] = in_order(lease)
        old[#old + 1] = by_name(lease)
      end
      if body then
        for i = 1, body.ended do
          remove(source[i])
        end
        for name, lease in pairs(outcome_of(body.changes)) do
          local was = source and source.named[name]
          local same = was and lease and was.expires == lease.expires and was.places == lease.places
          if was and not same then
            remove(was)
          end
          if lease and not same then
            put(in_order(lease))
            put(by_name(lease))
          end
        end
      end
      if not source then
        put(head)
      elseif head ~= before.header then
        put(head)
        old[#old + 1] = before.header
      end
      if #new == 0 and #old == 0 then
        return
      end
      in_parts('ZADD', key, new)
      in_parts('ZREM', key, old)
      call('PEXPIRE', key, ttl)
    end,

    fresh_at = fresh_at,

    decide = function(limit, body, now, ask)
      local action, cost, id = ask.action, ask.cost, ask.lease
      body = swept(body or EMPTY, now)
      if action == TAKE then
        return take(limit, body, now, cost, id)
      elseif action == TAKE_UP_TO then
        -- What its own lease holds is there for it too.
        local mine = held_by(body, id, now)
        local others = body.used - (mine and mine.places or 0)
        return take(limit, body, now, part_of(cost, limit.count - others), id)
      elseif action == RENEW then
        local mine = held_by(body, id, now)
        if not mine then
          -- A lease that has ended may be another's place by now: its holder must acquire again.
          return answer(limit, body, now, LEASE_LOST, 0, ZERO)
        end
        body = with_lease(without(body, mine), id, now + limit.lease, mine.places, now)
        return answer(limit, body, now, ALLOWED, mine.places, ZERO)
      elseif action == RELEASE then
        local mine = held_by(body, id, now)
        if not mine then
          return answer(limit, body, now, ALLOWED, 0, ZERO)
        end
        return answer(limit, without(body, mine), now, ALLOWED, mine.places, ZERO)
      elseif action == FORGET then
        return answer(limit, EMPTY, now, ALLOWED, 0, ZERO)
      end
      return take(limit, body, now, 0, ANONYMOUS)
    end,
  }
end
