-- Takes from buckets: no wait, no block, numbers small enough for plain arithmetic. The same decisions as flow.lua's, in
-- less time. What was found goes back, and the caller works out what to tell.
--
-- KEYS[i]  the states, as flow.lua has them, one for each charge in order
-- ARGV[1]  '<d'       the margin of a time-to-live in milliseconds, then for each run
--          '<I4I2'    how often, how many charges follow, each
--          '<ddddd'   cost, room, period, excess (in units or nanoseconds, as in core's Pace), the mark of the numbers
-- ARGV[2]  '<dd'      the caller's time in microseconds and nanoseconds, if it counts
-- reply    '<dd'      the time of the decisions, then for each charge what was found: a zero byte for none, a byte 1 and the
--                     state, or a byte 255 and what is wrong as '>I2' bytes

local each, call, unpack, pack = unpack, redis.call, struct.unpack, struct.pack
local input, now, nanos, callers = ARGV[1], 0, 0, ARGV[2]
if callers then
  now, nanos = unpack('<dd', callers)
else
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
end
local margin, from = unpack('<d', input)

-- An uneven rate goes from nanoseconds to units and back as core's Pace does: the one rounds down, the other up.
local function loss(amount, excess, of)
  local rest = amount % of
  local product = rest * excess
  local over = product % of
  local lost = (amount - rest) / of * excess + (product - over) / of
  if over > 0 then
    return lost + 1
  end
  return lost
end

-- What the server has, all at once; and by key, what this call has made of it.
local found, made = call('MGET', each(KEYS)), {}
local reply, first, size = { pack('<dd', now, nanos) }, 0, #input
-- Per charge of a run: its key and mark, in units how far it is used, may be used, and what it costs; when its key expires;
-- and of an uneven rate the units of a period, the excess, and how long ago the period began.
local keys, marks, used, full, costs, expiries, scales, excesses, begins = {}, {}, {}, {}, {}, {}, {}, {}, {}
while from <= size do
  local times, charges
  times, charges, from = unpack('<I4I2', input, from)
  local sound, clamped = true, false
  for i = 1, charges do
    local cost, room, period, excess, numbers
    cost, room, period, excess, numbers, from = unpack('<ddddd', input, from)
    local key, ahead, free, expires = KEYS[first + i], 0, false, 0
    -- No string is not nothing: something else may be there.
    local state = made[key] or found[first + i] or redis.pcall('GET', key)
    if not state then
      reply[#reply + 1] = '\0'
    else
      local at, mark
      if not state.err and #state == 24 then
        at, mark, expires = unpack('<ddd', state)
      end
      if mark and mark >= 134217728 and mark < 268435456 then
        reply[#reply + 1] = '\1'
        reply[#reply + 1] = state
        ahead = (at - now) * 1000 - nanos
        if mark ~= numbers then
          local low = mark % 2048
          local overdrawn = low % 2
          ahead = ahead + (low - overdrawn) / 2
          free = mark - low ~= numbers and overdrawn == 0
        end
        if ahead < 0 then
          ahead = 0
        end
      else
        local problem = state.err or 'TOLLGATE what is stored was written by another version or program'
        reply[#reply + 1] = '\255' .. pack('>I2', #problem) .. problem
        sound = false
      end
    end
    local present, ends = 0, ahead
    if excess == 0 then
      if free and ahead > room then
        ends, clamped = room, true
      end
    else
      local since = now % (period / 1000) * 1000 + nanos
      present = since - loss(since, excess, period)
      ends = present
      if ahead > 0 then
        local limit = present + room
        ends = since + ahead - loss(since + ahead, excess, period)
        if free and since + ahead > limit + loss(limit, excess, period - excess) then
          ends, clamped = limit, true
        end
      end
      scales[i], begins[i] = period - excess, since
    end
    keys[i], marks[i], used[i], full[i], costs[i], expiries[i] = key, numbers, ends, present + room, cost, expires
    excesses[i] = excess
  end
  local passed = false
  for _ = 1, sound and times or 0 do
    local fits = true
    for i = 1, charges do
      fits = fits and used[i] + costs[i] <= full[i]
    end
    if not fits then
      break
    end
    passed = true
    for i = 1, charges do
      used[i] = used[i] + costs[i]
    end
  end
  -- A denial writes nothing, except that the clock of a clamped state starts now.
  if passed or (sound and clamped and charges == 1 and times > 0) then
    for i = 1, charges do
      local key, ahead = keys[i], used[i]
      if excesses[i] > 0 then
        ahead = ahead + loss(ahead, excesses[i], scales[i]) - begins[i]
      end
      ahead = ahead + nanos
      local rest = ahead % 1000
      local at = now + (ahead - rest) / 1000
      local needed, expires = (at - at % 1000) / 1000 + 1 + margin, expiries[i]
      local mark = marks[i] + rest * 2
      if callers then
        -- The server's own clock ends it, and nobody knows how far that is from the caller's.
        made[key] = pack('<ddd', at, mark, 0)
        call('PSETEX', key, needed - (now - now % 1000) / 1000, made[key])
      elseif needed <= expires then
        -- To leave the time-to-live alone is half the price of a write. It is set with twice the margin, so that it can be.
        made[key] = pack('<ddd', at, mark, expires)
        call('SET', key, made[key], 'KEEPTTL')
      else
        expires = needed + margin
        made[key] = pack('<ddd', at, mark, expires)
        call('PSETEX', key, expires - (now - now % 1000) / 1000, made[key])
      end
    end
  end
  first = first + charges
end
return table.concat(reply)
