-- Takes from buckets: no wait, no block, numbers small enough for plain arithmetic. The same decisions as flow.lua's, in
-- less time; the caller works out what to tell.
--
-- KEYS[i]  the states, as flow.lua has them, one for each charge in order
-- ARGV[1]  '<dB'      the margin of a time-to-live in milliseconds, whether a key comes twice; then for some runs at a time
--          '<I4I2I2'  how often (once, if there are several charges), how many charges follow, and how many runs are
--                     like that but for the key (one, if there are several charges); for each of the charges
--          '<ddd'     cost and room in units, the mark of the numbers; negative if the rate is uneven, and then
--          '<dd'      the period and its excess, as in core's Pace
-- ARGV[2]  '<dd'      the caller's time in microseconds and nanoseconds, if it counts
-- reply    the time of the decisions in microseconds and nanoseconds, then for each charge how many nanoseconds its bucket
--          was away from full before, or its state if a number cannot say that exactly, or what is wrong with what is there

local each, call, unpack, pack, keys = unpack, redis.call, struct.unpack, struct.pack, KEYS
local input, now, nanos, callers = ARGV[1], 0, 0, ARGV[2]
if callers then
  now, nanos = unpack('<dd', callers)
else
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
end
local margin, twice, from = unpack('<dB', input)

-- What the server has, all at once, unless this call changes it on the way.
local found = twice == 0 and call('MGET', each(keys)) or {}
local reply, number, size = { now, nanos }, 0, #input
-- What several charges of a run make of their states, and how long these live then; false: as long as they do.
local texts, lives = {}, {}
local millis = (now - now % 1000) / 1000
while from <= size do
  local times, charges, alike
  times, charges, alike, from = unpack('<I4I2I2', input, from)
  local cost, room, numbers, period, excess
  for run = 1, alike do
    local writes = times > 0
    for i = 1, charges do
      if run == 1 then
        cost, room, numbers, from = unpack('<ddd', input, from)
        period, excess = nil, nil
        if numbers < 0 then
          numbers = -numbers
          period, excess, from = unpack('<dd', input, from)
        end
      end
      number = number + 1
      local ahead, free, expires = 0, false, 0
      -- No string is not nothing: something else may be there.
      local state = found[number] or redis.pcall('GET', keys[number])
      if state then
        local at, mark
        if #state == 24 then
          at, mark, expires = unpack('<ddd', state)
        end
        if mark and mark >= 134217728 and mark < 268435456 then
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
          ahead = state.err or 'TOLLGATE what is stored was written by another version or program'
          reply[number + 2], ahead, writes = ahead, 0, false
        end
      end
      -- In units from the begin of the period that now lies in: how far it is used, and how far it may be.
      local used, full, since = ahead, room, 0
      local clamped = free and ahead > room
      if period then
        since = now % (period / 1000) * 1000 + nanos
        local present = since - loss(since, excess, period)
        used, full = present, present + room
        clamped = free and since + ahead > full + loss(full, excess, period - excess)
        if ahead > 0 then
          used = since + ahead - loss(since + ahead, excess, period)
        end
      end
      if clamped then
        used, ahead = full, period and full + loss(full, excess, period - excess) - since or room
      end
      reply[number + 2] = reply[number + 2] or ahead
      if used + cost > full then
        if ahead >= 2 ^ 52 then
          reply[number + 2] = state
        end
        -- A denial writes nothing, except that the clock of a clamped state starts now.
        writes = writes and clamped and charges == 1
      else
        local more = full - used - cost
        used = used + cost
        if times > 1 then
          used = used + cost * math.min(times - 1, (more - more % cost) / cost)
        end
      end
      if writes then
        ahead = used
        if period then
          ahead = used + loss(used, excess, period - excess) - since
        end
        ahead = ahead + nanos
        local rest = ahead % 1000
        local at = now + (ahead - rest) / 1000
        local needed = (at - at % 1000) / 1000 + 1 + margin
        local life = false
        if callers then
          -- The server's own clock ends it, and nobody knows how far that is from the caller's.
          life, expires = needed - millis, 0
        elseif needed > expires then
          -- To leave the time-to-live alone is half the price of a write. It is set with twice the margin, so that it can be.
          expires = needed + margin
          life = expires - millis
        end
        local text = pack('<ddd', at, numbers + rest * 2, expires)
        if charges > 1 then
          lives[i], texts[i] = life, text
        elseif life then
          call('PSETEX', keys[number], life, text)
        else
          call('SETRANGE', keys[number], '0', text)
        end
      end
    end
    if writes and charges > 1 then
      local first = number - charges
      for i = 1, charges do
        if lives[i] then
          call('PSETEX', keys[first + i], lives[i], texts[i])
        else
          call('SETRANGE', keys[first + i], '0', texts[i])
        end
      end
    end
  end
end
return reply
