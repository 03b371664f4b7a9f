
-- Applies deltas (debits and refunds), all or none, and returns the states after them.
--
-- KEYS[1]  the idempotency record; then the states, one for each delta in order
-- ARGV[1]  '<ddB'         the expiry margin and the retention of the idempotency record in milliseconds, whether keys
--                         repeat; then for each group of deltas with the same limit
--          '<BI2dddddd'   the form (src/take.rs), the number of deltas, the units of a token, and the parameters; and
--                         for each delta
--          '<i4dd'        the cost in tokens (negative: a refund), the instant it belongs to in microseconds and
--                         nanoseconds (-1: none)
-- reply    a list of '<dd', the time in microseconds and nanoseconds, and for each delta the value after it, empty if
--          there is none; -1 if the general script has to apply them, in which case nothing has changed

local margin, retention, has_duplicates, from = unpack('<ddB', input)
local keys, number, size = KEYS, 1, #input
local is_repeated = call('GET', keys[1])
local found, latest = call('MGET', unpack_list(keys, 2)), {}
-- The writes, done once all deltas are known to be valid.
local commands, names, arguments, values, writes = {}, {}, {}, {}, 0
local reply = { pack('<dd', now, nanos) }
-- What takes need and deltas do not: these blocks are made for one take from a limit without a block time.
local count, block = 1, 0
while from <= size do
  local form, deltas, unit, a, b, c, d, e
  form, deltas, unit, a, b, c, d, e, from = unpack('<BI2dddddd', input, from)
  for _ = 1, deltas do
    local cost, dated, rest
    cost, dated, rest, from = unpack('<i4dd', input, from)
    number = number + 1
    local key = keys[number]
    -- MGET returns nothing for a key of another type; GET returns an error.
    local value = latest[key] or found[number - 1] or redis.pcall('GET', key)
    if type(value) == 'table' then
      return -1
    elseif value == '' then
      value = false
    end
    local stored = value or ''
    if cost ~= 0 and not is_repeated then
      cost = cost * unit
      if dated < 0 then
        dated = nil
      else
        dated = (dated - now) * 1000 + rest - nanos
        if dated > 2 ^ 52 or dated < -2 ^ 52 then
          return -1
        end
      end
      local passed, command, argument, after, ahead = nil, nil, nil, nil, nil
@take
      if not passed then
        return -1
      end
      if command then
        stored = argument == '9' and value:sub(1, 9) .. after or after
        writes = writes + 1
        commands[writes], names[writes], arguments[writes], values[writes] = command, key, argument, after
        if has_duplicates == 1 then
          latest[key] = stored
        end
      end
    end
    reply[number] = stored
  end
end
for i = 1, writes do
  if arguments[i] then
    call(commands[i], names[i], arguments[i], values[i])
  else
    call(commands[i], names[i])
  end
end
if writes > 0 then
  call('PSETEX', keys[1], retention, '\0')
end
return reply
