-- Plain takes from buckets: no wait, no block, and parameters that plain arithmetic handles exactly. The decisions are
-- those of flow.lua, in less time; the caller derives them from the states.
--
-- KEYS[i]  the states, one for each charge in order, in the format of flow.lua
-- ARGV[1]  '<dB'      the expiry margin in milliseconds, whether keys repeat; then for each group of runs
--          '<I4I2I2'  the count of a run (1 if it has several charges), its number of charges, and the number of runs
--                     that are equal except for their keys (1 if they have several charges); for each charge
--          '<ddd'     the cost and the capacity in units, the mark of the parameters; negative if the rate has an
--                     excess, and then
--          '<dd'      the period and its excess
-- ARGV[2]  '<dd'      the caller's time in microseconds and nanoseconds, if the caller's clock decides
-- reply    the time in microseconds and nanoseconds, then for each charge the nanoseconds from now to the TAT before
--          it; its stored value if that is too large for an exact number; or an error message if it is not a bucket

local has_duplicates
has_duplicates, from = unpack('B', input, from)

-- Read all states at once, unless this call changes one before it reads it again.
local found = has_duplicates == 0 and call('MGET', unpack_list(keys)) or {}
local reply, number, size = { now, nanos }, 0, #input
-- The writes of a run with several charges, and which of them are of clamped states.
local commands, arguments, values, clamps = {}, {}, {}, {}
while from <= size do
  local count, charges, runs
  count, charges, runs, from = unpack('<I4I2I2', input, from)
  local cost, room, parameters, period, excess
  for run = 1, runs do
    local writes, failed = count > 0, false
    for i = 1, charges do
      if run == 1 then
        cost, room, parameters, from = unpack('<ddd', input, from)
        period, excess = nil, nil
        if parameters < 0 then
          parameters = -parameters
          period, excess, from = unpack('<dd', input, from)
        end
      end
      number = number + 1
      local ahead, is_limited, expires, problem = 0, false, 0, nil
      -- MGET returns nothing for a key of another type; GET returns an error.
      local value = found[number] or redis.pcall('GET', keys[number])
      if value then
        local at, mark
        if #value == FLOW_SIZE then
          at, mark, expires = unpack('<ddd', value)
        end
        if mark == parameters then
          -- The usual case, without a function call.
          ahead = (at - now) * 1000 - nanos
        else
          ahead, is_limited, expires = decode(value, parameters)
        end
        if not ahead then
          problem, writes, failed = is_limited, false, true
          ahead, is_limited, expires = 0, false, 0
        elseif ahead < 0 then
          ahead = 0
        end
      end
      -- In units from the start of the current period: the usage, and the capacity.
      local used, full, since, clamped = ahead, room, 0, false
      if period then
        since = now % (period / 1000) * 1000 + nanos
        local present = since - difference(since, excess, period)
        used, full = present, present + room
        if ahead > 0 then
          used = since + ahead - difference(since + ahead, excess, period)
        end
        if is_limited then
          local max_ahead = full + difference(full, excess, period - excess) - since
          if ahead > max_ahead then
            clamped, used, ahead = true, full, max_ahead
          end
        end
      elseif is_limited and ahead > room then
        clamped, used, ahead = true, room, room
      end
      local result = problem or ahead
      if used + cost > full then
        if ahead >= 2 ^ 52 then
          result = value
        end
        -- A denial writes nothing, except for a clamped state, which is stored under the current parameters.
        writes = writes and clamped and charges == 1
      else
        used = used + cost
        if count > 1 then
          local more = full - used
          used = used + cost * math.min(count - 1, (more - more % cost) / cost)
        end
      end
      reply[number + 2] = result
      clamps[i] = clamped
      if writes or clamped then
        ahead = used
        if period then
          ahead = used + difference(used, excess, period - excess) - since
        end
        local after, command, argument = encode(ahead, parameters, 0, expires)
        if charges > 1 then
          commands[i], arguments[i], values[i] = command, argument, after
        else
          call(command, keys[number], argument, after)
        end
      end
    end
    if charges > 1 and not failed then
      local first = number - charges
      for i = 1, charges do
        if writes or clamps[i] then
          call(commands[i], keys[first + i], arguments[i], values[i])
        end
      end
    end
  end
end
return reply
