-- Applies debits to buckets, all or none, and returns the states. The states are those that flow.lua's debits make, in
-- less time.
--
-- KEYS[1]  the idempotency record; then the states, one for each debit in order, in the format of flow.lua
-- ARGV[1]  '<ddB'    the expiry margin and the retention of the idempotency record in milliseconds, whether keys
--                    repeat; then for each group of debits with the same limit
--          '<I2ddd'  the number of debits, the units of a token, the capacity in units, the mark of the parameters;
--                    negative if the rate has an excess, and then
--          '<dd'     the period and its excess; and for each debit
--          '<I4dd'   the cost in tokens, the instant it belongs to in microseconds and nanoseconds
-- ARGV[2]  '<dd'     the caller's time in microseconds and nanoseconds, if the caller's clock decides
-- reply    '<dd'     the time in microseconds and nanoseconds, then for each debit the state after it (zeros: none);
--          nil if an instant is out of range for plain numbers, in which case nothing was applied

local retention, has_duplicates
retention, has_duplicates, from = unpack('<dB', input, from)
-- Spans up to this are exact.
local EXACT, NONE = 2 ^ 51, ('\0'):rep(FLOW_SIZE)

local is_repeated = call('GET', keys[1])
local found, latest = call('MGET', unpack_list(keys, 2)), {}
-- The writes, done once all debits are known to be valid.
local commands, names, arguments, values, writes = {}, {}, {}, {}, 0
local reply, number, size = { pack('<dd', now, nanos) }, 0, #input
while from <= size do
  local count, token, room, parameters, period, excess
  count, token, room, parameters, from = unpack('<I2ddd', input, from)
  -- How far from now the TAT may be under these parameters.
  local max_ahead = room
  if parameters < 0 then
    parameters = -parameters
    period, excess, from = unpack('<dd', input, from)
    local since = now % (period / 1000) * 1000 + nanos
    local full = since - difference(since, excess, period) + room
    max_ahead = full + difference(full, excess, period - excess) - since
  end
  for _ = 1, count do
    local cost, micros, rest
    cost, micros, rest, from = unpack('<I4dd', input, from)
    number = number + 1
    local key = keys[number + 1]
    -- MGET returns nothing for a key of another type; GET returns an error.
    local value = has_duplicates == 1 and latest[key] or found[number] or redis.pcall('GET', key)
    local ahead, is_limited, expires
    if value then
      ahead, is_limited, expires = decode(value, parameters)
      if not ahead then
        return redis.error_reply(is_limited)
      end
    end
    local after = value or NONE
    if cost > 0 and not is_repeated then
      -- In nanoseconds from now: the debit counts from its instant on, but not from before the TAT.
      local since = math.min((micros - now) * 1000 + rest - nanos, 0)
      if value then
        if is_limited and ahead > max_ahead then
          ahead = max_ahead
        end
        since = math.max(since, ahead)
      end
      if since < -EXACT or since > EXACT then
        return false
      end
      local finish = since + cost * token
      if period then
        local whole = since + nanos
        local part = whole % 1000
        local start = (now + (whole - part) / 1000) % (period / 1000) * 1000 + part
        local used = start - difference(start, excess, period) + cost * token
        finish = since + used + difference(used, excess, period - excess) - start
      end
      local command, argument
      after, command, argument = encode(finish, parameters, finish > max_ahead and 1 or 0, expires or 0)
      writes = writes + 1
      commands[writes], names[writes], arguments[writes], values[writes] = command, key, argument, after
      latest[key] = after
    end
    reply[number + 1] = after
  end
end
for i = 1, writes do
  call(commands[i], names[i], arguments[i], values[i])
end
if writes > 0 then
  call('PSETEX', keys[1], retention, '\0')
end
return table.concat(reply)
