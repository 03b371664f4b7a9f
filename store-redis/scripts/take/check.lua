
-- Decides one plain take.
--
-- KEYS[1]  the state
-- KEYS[2]  the idempotency record, if the request has an idempotency key
-- ARGV[1]  '<d'         the retention of the record in milliseconds; then
--          '<Bddddddd'  the code, the cost, the block time and the parameters
-- reply    that of takes.lua for one run

local key, record = KEYS[1], KEYS[2]
local retention, code, cost, block, a, b, c, d, e = unpack('<dBddddddd', input, from)
local recorded = record and call('GET', record)
if recorded then
  return { now, nanos, { recorded } }
end
local value, step = call('GET', key), steps[code]
local passed, command, argument, after
if step then
  passed, command, argument, after = take_fields(step, value, 1, cost, block, a, b, c)
else
  passed, command, argument, after = takes[code](value, 1, cost, block, a, b, c, d, e)
end
if not passed then
  return { now, nanos, 0 }
end
if command then
  call(command, key, argument, after)
  if record and (passed > 0 or block > 0) then
    call('PSETEX', record, retention, pack('<BI2ddI4', STATES, 1, now, nanos, value and #value or 0) .. (value or ''))
  end
end
return { now, nanos, value }
