
-- Decides one plain take.
--
-- KEYS[1]  the state
-- KEYS[2]  the idempotency record, if the request has an idempotency key
-- ARGV[1]  '<ddddddddd'  the expiry margin and the retention of the record in milliseconds, the cost, the block time and
--                        the parameters; then the id of a lease, if it is about one.
--          '<ddddd'  the margin, the cost and the first three parameters of a flow whose other numbers are zero, if there
--                    is no idempotency key: nearly all checks, and shorter input is decoded faster
-- reply    a list of the time in microseconds and nanoseconds and the record, if there is one; -1 if the general script
--          has to decide, in which case nothing has changed; otherwise the state before the take: a number if it is one
--          and there is no idempotency key, or '<dd' the time in microseconds and nanoseconds and the value

local key, record, count = KEYS[1], KEYS[2], 1
local margin, retention, cost, block, a, b, c, d, e
if #input == 40 then
  margin, cost, a, b, c = unpack('<ddddd', input)
  block, d, e = 0, 0, 0
else
  margin, retention, cost, block, a, b, c, d, e = unpack('<ddddddddd', input)
end
local recorded = record and call('GET', record)
if recorded then
  return { now, nanos, recorded }
end
@read
local before, ahead, passed, command, argument, after, more = value, nil, nil, nil, nil, nil, nil
@take
if not passed then
  return -1
end
if command then
  call(command, key, argument, after)
end
for i = 1, more and #more or 0 do
  call(more[i][1], key, unpack_list(more[i], 2))
end
if record and (command or more) and (passed > 0 or block > 0) then
  before = before or ''
  call('PSETEX', record, retention, pack('<BI2ddI4', STATES, 1, now, nanos, #before) .. before)
end
if ahead and not record then
  return ahead
end
return pack('<dd', now, nanos) .. (before or '')
