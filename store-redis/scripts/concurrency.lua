-- Concurrency: a maximum number of slots in use. Each holder has a lease with an expiry, so that the slots of a crashed
-- holder are freed.
--
-- limit: count, lease (the lease time)
-- value: a sorted set, all scores zero, so that its members are in the order of their bytes:
--        'h' '>B I2I6 I2I6 I2I6 I7'  version, fresh, blocked, the latest expiry, the number of slots in use
--        'l' '>I2I6 c16 I4'          a lease: expiry, id, slots; the earliest expiry first
--        'n' '>c16 I2I6 I4'          the same lease, indexed by its id
-- body:  source         where stored leases are read (nil: there are none)
--        expired        the number of stored leases, from the front, that have expired
--        used, latest   as in the value
--        is_stale       the lease with the latest expiry was removed, so `latest` has to be determined again
--        soonest        no lease that this call has added expires before (false: there are none)
--        changes        a linked list of changes, the newest first: { name, lease (nil: removed), older }
--
-- There can be many leases: a few are read with the header, others when a decision needs them, and only changes are
-- written.

do
  local each = unpack
  local call, pack, unpack = redis.call, struct.pack, struct.unpack
  -- The number of leases that are read with the header, and the maximum that is read or written at once.
  local FEW, MANY = 7, 500
  -- Sorts after every member with the same prefix.
  local LAST = ('\255'):rep(13)
  local EMPTY = { expired = 0, used = 0, latest = ZERO, is_stale = false }

  -- Returns the name of a lease. Anonymous slots with the same expiry are one lease.
  local function name_of(id, expires)
    return id == ANONYMOUS and id .. pack('>I2I6', expires[1], expires[2]) or id
  end

  local function expiry_member(lease)
    return 'l' .. pack('>I2I6c16I4', lease.expires[1], lease.expires[2], lease.id, lease.slots)
  end

  local function id_member(lease)
    return 'n' .. pack('>c16I2I6I4', lease.id, lease.expires[1], lease.expires[2], lease.slots)
  end

  local function read_lease(member)
    local h, l, id, slots = unpack('>I2I6c16I4', member, 2)
    return { expires = wide(h, l), id = id, slots = slots }
  end

  -- Adds members to a source. They are sorted: the index by id follows the leases.
  local function add_members(source, members, from)
    for i = from, #members do
      if members[i]:byte() ~= ('l'):byte() then
        source.complete = true
        return
      end
      source[#source + 1] = read_lease(members[i])
    end
  end

  -- Returns a stored lease by its rank in the order of expiry.
  local function stored(source, index)
    while source and index > #source and not source.complete do
      -- The header has rank 0.
      local from = #source + 1
      local members = call('ZRANGE', source.key, from, from + math.min(#source + FEW, MANY))
      source.complete = #members == 0
      add_members(source, members, 1)
    end
    return source and source[index]
  end

  local function stored_by_name(source, name)
    local lease = source.named[name]
    if lease == nil then
      local member = call('ZRANGEBYLEX', source.key, '[n' .. name, '[n' .. name .. LAST, 'LIMIT', 0, 1)[1]
      lease = false
      if member then
        local id, h, l, slots = unpack('>c16I2I6I4', member, 2)
        lease = { expires = wide(h, l), id = id, slots = slots }
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

  -- Returns the lease with an id. Anonymous leases have none.
  local function held_by(body, id, now)
    return id ~= ANONYMOUS and held_as(body, id, now) or nil
  end

  -- Returns all changed leases by name: the lease, or false if it was removed.
  local function changed_leases(changes)
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
      used = body.used - lease.slots, is_stale = body.is_stale or lease.expires == body.latest,
      changes = change(body, name_of(lease.id, lease.expires), nil),
    })
  end

  local function with_lease(body, id, expires, slots, now)
    local name, sum = name_of(id, expires), slots
    if id == ANONYMOUS then
      local same = held_as(body, name, now)
      sum = same and same.slots + slots or slots
    end
    local last = body.latest <= expires
    return changed(body, {
      used = body.used + slots, latest = last and expires or body.latest, is_stale = not last and body.is_stale,
      soonest = body.soonest and least(body.soonest, expires) or expires,
      changes = change(body, name, { expires = expires, id = id, slots = sum }),
    })
  end

  -- Returns the body without the leases of this call that have expired: at an instant that is tried.
  local function without_own_expired(body, now)
    local used, changes = body.used, body.changes
    for name, lease in pairs(changed_leases(changes)) do
      if lease and lease.expires <= now then
        used, changes = used - lease.slots, { name = name, lease = nil, older = changes }
      end
    end
    return changed(body, { used = used, changes = changes, soonest = false, is_stale = true })
  end

  -- Returns the body without expired leases.
  local function swept(body, now)
    if body.soonest and body.soonest <= now then
      body = without_own_expired(body, now)
    end
    local expired, used, all = body.expired, body.used, nil
    local lease = stored(body.source, expired + 1)
    while lease and lease.expires <= now do
      all = all or changed_leases(body.changes)
      -- One that this call has replaced or released no longer counts.
      if all[name_of(lease.id, lease.expires)] == nil then
        used = used - lease.slots
      end
      expired = expired + 1
      lease = stored(body.source, expired + 1)
    end
    return expired == body.expired and body or changed(body, { expired = expired, used = used })
  end

  -- Returns the latest expiry, searched from the end.
  local function latest_of(body)
    local all, latest = changed_leases(body.changes), ZERO
    for _, lease in pairs(all) do
      latest = lease and most(latest, lease.expires) or latest
    end
    -- Every lease has two members, and the header has rank 0.
    local to = body.source and (call('ZCARD', body.source.key) - 1) / 2 or 0
    local size = FEW
    while to > body.expired do
      local from = math.max(to - size, body.expired + 1)
      local members = call('ZRANGE', body.source.key, from, to)
      for i = #members, 1, -1 do
        local lease = read_lease(members[i])
        if all[name_of(lease.id, lease.expires)] == nil then
          return most(latest, lease.expires)
        end
      end
      to, size = from - 1, math.min(2 * size, MANY)
    end
    return latest
  end

  local function with_latest(body)
    if not body.is_stale or body.used == 0 then
      return body
    end
    return changed(body, { latest = latest_of(body), is_stale = false })
  end

  -- Returns when this many slots will be free at the latest, by the expiry of their leases.
  local function free_at(body, slots)
    local all, own = changed_leases(body.changes), {}
    -- Leases that one call adds usually have the same expiry.
    for _, lease in pairs(all) do
      if lease then
        local together
        for _, other in ipairs(own) do
          together = together or (other.expires == lease.expires and other)
        end
        if together then
          together.slots = together.slots + lease.slots
        else
          own[#own + 1] = { expires = lease.expires, slots = lease.slots }
        end
      end
    end
    table.sort(own, function(a, b)
      return a.expires < b.expires
    end)
    local index, turn, last = body.expired + 1, 1, ZERO
    while slots > 0 do
      local kept, added = stored(body.source, index), own[turn]
      if kept and body.changes and all[name_of(kept.id, kept.expires)] ~= nil then
        index = index + 1
      elseif kept and not (added and added.expires < kept.expires) then
        slots, last, index = slots - kept.slots, kept.expires, index + 1
      elseif added then
        slots, last, turn = slots - added.slots, added.expires, turn + 1
      else
        break
      end
    end
    return last
  end

  local function fresh_at(_, body)
    return least(body.latest, END_OF_TIME)
  end

  -- Returns the decision and the body; nil without leases.
  local function answer(limit, body, now, outcome, granted, wait)
    body = with_latest(body)
    local left = body.used > 0 and body or nil
    local reset = left and fresh_at(limit, left) - now or ZERO
    return counted(limit.count, body.used, outcome, granted, wait, reset), left
  end

  local function take(limit, body, now, cost, id)
    local asked = math.max(cost, 1)
    if asked > limit.count then
      return answer(limit, body, now, NEVER_FITS, 0, ZERO)
    end
    -- A take with the id of a held lease replaces that lease.
    local held = cost > 0 and held_by(body, id, now)
    local others = held and without(body, held) or body
    local excess = others.used + asked - limit.count
    if excess > 0 then
      return answer(limit, body, now, DENIED, 0, free_at(others, excess) - now)
    end
    if cost > 0 then
      body = with_lease(others, id, now + limit.lease, cost, now)
    end
    return answer(limit, body, now, ALLOWED, cost, ZERO)
  end

  -- Calls a command with many arguments, in as many calls as necessary.
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

  algorithms[CONCURRENCY] = {
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
        add_members(source, members, 2)
        body = { source = source, expired = 0, used = used, latest = wide(h, l), is_stale = false }
      end
      return { body = body, blocked = wide(blocked_h, blocked_l), fresh = wide(fresh_h, fresh_l), header = members[1] }
    end,

    save = function(_, key, before, state, ttl, now)
      local body, head = state.body, header(state)
      local source = body and body.source
      if not body and before and before.header == head then
        return
      elseif before and not source then
        -- UNLINK frees large sets in the background.
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
        old[#old + 1] = expiry_member(lease)
        old[#old + 1] = id_member(lease)
      end
      if body then
        for i = 1, body.expired do
          remove(source[i])
        end
        for name, lease in pairs(changed_leases(body.changes)) do
          local was = source and source.named[name]
          local same = was and lease and was.expires == lease.expires and was.slots == lease.slots
          if was and not same then
            remove(was)
          end
          if lease and not same then
            put(expiry_member(lease))
            put(id_member(lease))
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
        -- The slots of its own lease are available to it.
        local held = held_by(body, id, now)
        local others = body.used - (held and held.slots or 0)
        return take(limit, body, now, part_of(cost, limit.count - others), id)
      elseif action == RENEW then
        local held = held_by(body, id, now)
        if not held then
          -- The slots of an expired lease may be in use by another holder.
          return answer(limit, body, now, LEASE_LOST, 0, ZERO)
        end
        body = with_lease(without(body, held), id, now + limit.lease, held.slots, now)
        return answer(limit, body, now, ALLOWED, held.slots, ZERO)
      elseif action == RELEASE then
        local held = held_by(body, id, now)
        if not held then
          return answer(limit, body, now, ALLOWED, 0, ZERO)
        end
        return answer(limit, without(body, held), now, ALLOWED, held.slots, ZERO)
      elseif action == RESET then
        return answer(limit, EMPTY, now, ALLOWED, 0, ZERO)
      end
      return take(limit, body, now, 0, ANONYMOUS)
    end,
  }
end
