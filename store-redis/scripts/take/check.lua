
-- Decides one plain take.
--
-- KEYS[1]  the state
-- KEYS[2]  the idempotency record, if the request has an idempotency key
-- ARGV[1]  '<ddddddddd'  the expiry margin and the retention of the record in milliseconds, the cost, the block time and
--                        the parameters
-- reply    a list of the time in microseconds and nanoseconds and the record, if there is one; -1 if the general script
--          has to decide, in which case nothing has changed; otherwise the state before the take: a number if it is one
--          and there is no idempotency key, or '<dd' the time in microseconds and nanoseconds and the value

local key, record, count = KEYS[1], KEYS[2], 1
local margin, retention, cost, block, a, b, c, d, e = unpack('<ddddddddd', input)
local recorded = record and call('GET', record)
if recorded then
  return { now, nanos, recorded }
end
local value, passed, command, argument, after = call('GET', key), nil, nil, nil, nil
local before = value
@take
if not passed then
  return -1
end
if command then
  call(command, key, argument, after)
  if record and (passed > 0 or block > 0) then
    call('PSETEX', record, retention, pack('<BI2ddI4', STATES, 1, now, nanos, value and #value or 0) .. (value or ''))
  end
end
if before == value or record then
  return pack('<dd', now, nanos) .. (value or '')
end
return before
