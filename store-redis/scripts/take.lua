-- Takes from buckets, the check that nearly all are: no wait, no block, numbers small enough for plain arithmetic. The same
-- decision as flow.lua's, in less time. What was found goes back, and the caller works out what to tell from that.
--
-- KEYS[i]  the states, one for each charge in order
-- ARGV[1]  '<I4'       the margin of a time-to-live in milliseconds, then for each run
--          '<I4B'      how often, how many charges follow, each
--          '<ddddI2'   cost, room, period, excess (in units or nanoseconds, as in core's Pace), digest of the numbers
-- ARGV[2]  '<dd'       the caller's time in seconds and nanoseconds, if it counts
-- reply    '>I2I6'     the time of the decisions, then for each charge what was found: a state, a zero byte for none,
--                      or a byte 255 and what is wrong as '>I2' bytes

local call, unpack, pack = redis.call, struct.unpack, struct.pack
local input, at = ARGV[1], 1
local seconds, nanos
if ARGV[2] then
  seconds, nanos = unpack('<dd', ARGV[2])
else
  local time = call('TIME')
  seconds, nanos = time[1] + 0, time[2] * 1000
end

-- The time in base 2^48, as states have it: a product of doubles is exact below 2^53.
local low = seconds % 65536
local high = (seconds - low) / 65536 * 1e9
local part = high % 4294967296
local now_l = part * 65536 + low * 1e9 + nanos
local now_h = (high - part) / 4294967296
if now_l >= 281474976710656 then
  now_h, now_l = now_h + 1, now_l - 281474976710656
end

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

local margin
margin, at = unpack('<I4', input, at)
local reply, first, size = pack('>I2I6', now_h, now_l), 0, #input
while at <= size do
  local times, charges
  times, charges, at = unpack('<I4B', input, at)
  -- Per charge, in units from the begin of the period that now lies in: how far it is used, and how far it may be.
  local used, full, costs, digests, paces = {}, {}, {}, {}, {}
  local sound, clamped = true, false
  for i = 1, charges do
    local cost, room, period, excess, digest
    cost, room, period, excess, digest, at = unpack('<ddddI2', input, at)
    local state = redis.pcall('GET', KEYS[first + i])
    local ahead, free = 0, true
    if not state then
      reply = reply .. '\0'
    elseif state.err or #state ~= 12 or state:byte() ~= 1 then
      local problem = state.err or 'TOLLGATE what is stored was written by another version or program'
      reply, sound = reply .. '\255' .. pack('>I2', #problem) .. problem, false
    else
      local h, l, overdrawn, written = unpack('>I2I6BI2', state, 2)
      reply = reply .. state
      ahead = (h - now_h) * 281474976710656 + (l - now_l)
      if ahead < 0 then
        ahead = 0
      end
      free = written ~= digest and overdrawn == 0
    end
    local present, ends = 0, ahead
    if excess == 0 then
      if free and ahead > room then
        ends, clamped = room, true
      end
      paces[i] = false
    else
      -- An uneven rate: nanoseconds to units, as core's Pace does.
      local since = seconds % (period / 1e9) * 1e9 + nanos
      present = since - loss(since, excess, period)
      ends = present
      if ahead > 0 then
        local limit = present + room
        ends = since + ahead - loss(since + ahead, excess, period)
        if free and since + ahead > limit + loss(limit, excess, period - excess) then
          ends, clamped = limit, true
        end
      end
      paces[i] = { period - excess, excess, since }
    end
    used[i], full[i], costs[i], digests[i] = ends, present + room, cost, digest
  end
  if sound then
    local passed = false
    for _ = 1, times do
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
    if passed or (clamped and charges == 1) then
      for i = 1, charges do
        local ahead, pace = used[i], paces[i]
        if pace then
          ahead = ahead + loss(ahead, pace[2], pace[1]) - pace[3]
        end
        local h, l = now_h, now_l + ahead
        if l >= 281474976710656 then
          local rest = l % 281474976710656
          h, l = h + (l - rest) / 281474976710656, rest
        end
        call('PSETEX', KEYS[first + i], margin + (ahead + 999999 - (ahead + 999999) % 1e6) / 1e6, pack('>BI2I6BI2', 1, h, l, 0, digests[i]))
      end
    end
  end
  first = first + charges
end
return reply
