
-- Decides runs of plain takes, in order, each all or nothing.
--
-- KEYS[i]  for each run the idempotency record, if it has one, and the states of its charges, in order
-- ARGV[1]  '<dB'        the retention of records in milliseconds, whether keys repeat; then for each group of runs
--          '<I4I2I2B'   the count of a run (1 if it has several charges), its number of charges, the number of runs that
--                       are equal except for their keys, and whether they have records; and for each charge
--          '<Bddddddd'  the code, the cost, the block time and the parameters
-- reply    the time in microseconds and nanoseconds, then for each run its record in a list, if there is one; 0 if the
--          general script has to decide it, in which case it has changed nothing; otherwise the value of each charge's
--          state before the run (nil: there was none)

local keys, number, reply, size = KEYS, 0, { now, nanos }, 2
local retention, repeats
retention, repeats, from = unpack('<dB', input, from)
-- Read all states at once, unless this call changes one before it reads it again.
local found = repeats == 0 and call('MGET', unpack_list(keys)) or {}

-- Records the states before a run.
local function remember(record, values)
  local parts = { pack('<BI2dd', STATES, #values, now, nanos) }
  for i = 1, #values do
    local value = values[i] or ''
    parts[i + 1] = pack('<I4', #value) .. value
  end
  call('PSETEX', record, retention, table.concat(parts))
end

while from <= #input do
  local count, charges, runs, has_record
  count, charges, runs, has_record, from = unpack('<I4I2I2B', input, from)
  local limits = {}
  for i = 1, charges do
    local limit = { unpack('<Bddddddd', input, from) }
    limits[i], from = limit, limit[9]
  end
  for _ = 1, runs do
    local record, recorded
    if has_record == 1 then
      number = number + 1
      record = keys[number]
      recorded = redis.pcall('GET', record)
    end
    if recorded then
      size, number = size + 1, number + charges
      reply[size] = { recorded }
    else
      local values, writes, first, all, changes = {}, {}, number, true, false
      for i = 1, charges do
        number = number + 1
        -- MGET returns nothing for a key of another type; GET returns an error.
        local value, limit = found[number] or redis.pcall('GET', keys[number]), limits[i]
        local passed, command, argument, after
        if type(value) ~= 'table' then
          local step = steps[limit[1]]
          if step then
            passed, command, argument, after =
              take_fields(step, value, count, limit[2], limit[3], limit[4], limit[5], limit[6])
          else
            passed, command, argument, after =
              takes[limit[1]](value, count, limit[2], limit[3], limit[4], limit[5], limit[6], limit[7], limit[8])
          end
        end
        -- A denial of one of several charges rarely changes its state. That is left to the general script.
        if not passed or (charges > 1 and passed == 0 and command) then
          values, number = nil, first + charges
          break
        end
        values[i], all = value, all and passed > 0
        if command then
          writes[i] = { command, argument, after }
          changes = changes or passed > 0 or limit[3] > 0
        end
      end
      if not values then
        size = size + 1
        reply[size] = 0
      else
        for i = 1, charges do
          local write = writes[i]
          if write and (all or charges == 1) then
            call(write[1], keys[first + i], write[2], write[3])
          end
          reply[size + i] = values[i]
        end
        size = size + charges
        if record and changes and (all or charges == 1) then
          remember(record, values)
        end
      end
    end
  end
end
return reply
