-- Books debits on buckets, all of them at once: what was granted elsewhere. The same states as flow.lua's debits make, in less
-- time, and told to the caller.
--
-- KEYS[1]  the operation; then the states, as flow.lua has them, one for each debit in order
-- ARGV[1]  '<ddB'    the margin of a time-to-live and how long the operation is remembered in milliseconds, whether a key
--                    comes twice; then for some debits at a time
--          '<I2ddd'  how many of them are alike but for the following, the units of a token, the room in units, the mark of
--                    the numbers; negative if the rate is uneven, and then
--          '<dd'     the period and its excess, as in core's Pace; and for each of them
--          '<I4dd'   the cost in tokens, the instant that it belongs to in microseconds and nanoseconds
-- ARGV[2]  '<dd'     the caller's time in microseconds and nanoseconds, if it counts
-- reply    '<dd'     the time in microseconds and nanoseconds, then for each debit its state after it, zeros if there is none;
--          or nothing, if an instant is too far away for plain numbers: then nothing was booked

local each, call, unpack, pack, keys = unpack, redis.call, struct.unpack, struct.pack, KEYS
local input, now, nanos, callers = ARGV[1], 0, 0, ARGV[2]
if callers then
  now, nanos = unpack('<dd', callers)
else
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
end
local margin, memory, twice, from = unpack('<ddB', input)
local millis = (now - now % 1000) / 1000
local FAR, NONE = 2 ^ 51, ('\0'):rep(24)

local known = call('GET', keys[1])
local found, latest = call('MGET', each(keys, 2)), {}
-- What is written once all is known to be fine: keys, texts, and how long they live; false: as long as they do.
local names, texts, lives, writes = {}, {}, {}, 0
local reply, number, size = { pack('<dd', now, nanos) }, 0, #input
while from <= size do
  local alike, token, room, numbers, period, excess
  alike, token, room, numbers, from = unpack('<I2ddd', input, from)
  -- How far from now an instant may be under these numbers.
  local reach = room
  if numbers < 0 then
    numbers = -numbers
    period, excess, from = unpack('<dd', input, from)
    local since = now % (period / 1000) * 1000 + nanos
    local full = since - loss(since, excess, period) + room
    reach = full + loss(full, excess, period - excess) - since
  end
  for _ = 1, alike do
    local cost, micros, rest
    cost, micros, rest, from = unpack('<I4dd', input, from)
    number = number + 1
    local key = keys[number + 1]
    -- No string is not nothing: something else may be there.
    local state = twice == 1 and latest[key] or found[number] or redis.pcall('GET', key)
    local at, mark, expires = 0, numbers, 0
    if state then
      if state.err then
        return redis.error_reply(state.err)
      elseif #state ~= 24 then
        return redis.error_reply('TOLLGATE what is stored was written by another program')
      end
      at, mark, expires = unpack('<ddd', state)
      if mark < 134217728 or mark >= 268435456 then
        return redis.error_reply('TOLLGATE what is stored was written by another version')
      end
    end
    local text = state or NONE
    if cost > 0 and not known then
      -- Nanoseconds from now: since when it counts, which is no sooner than the bucket would have been full again.
      local since = math.min((micros - now) * 1000 + rest - nanos, 0)
      if state then
        local low = mark % 2048
        local overdrawn = low % 2
        local ahead = (at - now) * 1000 + (low - overdrawn) / 2 - nanos
        if mark - low ~= numbers and overdrawn == 0 and ahead > reach then
          ahead = reach
        end
        since = math.max(since, ahead)
      end
      if since < -FAR or since > FAR then
        return false
      end
      local finish = since + cost * token
      if period then
        local whole = since + nanos
        local part = whole % 1000
        local begin = (now + (whole - part) / 1000) % (period / 1000) * 1000 + part
        local used = begin - loss(begin, excess, period) + cost * token
        finish = since + used + loss(used, excess, period - excess) - begin
      end
      local whole = finish + nanos
      local part = whole % 1000
      local ends = now + (whole - part) / 1000
      local needed = math.max((ends - ends % 1000) / 1000 + 1, millis) + margin
      local life = false
      -- As in take.lua: whose clock ends it, and why it is often left alone.
      if callers then
        life, expires = needed - millis, 0
      elseif needed > expires then
        expires = needed + margin
        life = expires - millis
      end
      text = pack('<ddd', ends, numbers + part * 2 + (finish > reach and 1 or 0), expires)
      writes = writes + 1
      names[writes], texts[writes], lives[writes] = key, text, life
      latest[key] = text
    end
    reply[number + 1] = text
  end
end
for i = 1, writes do
  if lives[i] then
    call('PSETEX', names[i], lives[i], texts[i])
  else
    call('SETRANGE', names[i], '0', texts[i])
  end
end
if writes > 0 then
  call('PSETEX', keys[1], memory, '\0')
end
return table.concat(reply)
