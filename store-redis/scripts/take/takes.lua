
-- Decides runs of plain takes, in order, each all or nothing.
--
-- KEYS[i]  for each run the idempotency record, if it has one, and the states of its charges, in order
-- ARGV[1]  '<ddB'       the expiry margin and the retention of records in milliseconds, whether keys repeat; then for
--                       each group of runs
--          '<I4I2I2B'   the count of a run (1 if it has several charges), its number of charges, the number of runs that
--                       are equal except for their keys, and whether they have records; and for each charge
--          '<Bddddddd'  the form (src/take.rs), the cost, the block time and the parameters
-- reply    the time in microseconds and nanoseconds, then for each run its record in a list, if there is one; -1 if the
--          general script has to decide it, in which case it has changed nothing; otherwise for each charge the state
--          before the run: a number or the value (nil: there was none)

local keys, number, reply, size = KEYS, 0, { now, nanos }, 2
local margin, retention, repeats, from = unpack('<ddB', input)
-- Read all states at once, unless this call changes one before it reads it again.
local found = repeats == 0 and call('MGET', unpack_list(keys)) or {}
while from <= #input do
  local count, charges, runs, has_record, form, cost, block, a, b, c, d, e
  count, charges, runs, has_record, from = unpack('<I4I2I2B', input, from)
  local first_charge = from
  for _ = 1, runs do
    local recorded, record = false, nil
    if has_record == 1 then
      number = number + 1
      record = keys[number]
      recorded = redis.pcall('GET', record)
    end
    if recorded then
      number, size, from = number + charges, size + 1, first_charge + charges * 57
      reply[size] = { recorded }
    else
      -- What to do once all charges have passed.
      local values, states, writes, is_plain, all, changes = {}, {}, nil, true, true, false
      from = first_charge
      for i = 1, charges do
        number = number + 1
        form, cost, block, a, b, c, d, e, from = unpack('<Bddddddd', input, from)
        -- MGET returns nothing for a key of another type; GET returns an error.
        local value, passed, command, argument, after = found[number] or redis.pcall('GET', keys[number]), nil, nil, nil, nil
        if type(value) == 'table' then
          value = ''
        end
        local before = value
@take
        -- A denial of one of several charges rarely changes its state. That is left to the general script.
        if not passed or (charges > 1 and passed == 0 and command) then
          is_plain = false
        elseif command then
          changes = changes or passed > 0 or block > 0
          if charges == 1 then
            call(command, keys[number], argument, after)
          else
            writes = { command, keys[number], argument, after, writes }
          end
        end
        values[i], states[i], all = value, before, all and passed and passed > 0
      end
      if not is_plain then
        size = size + 1
        reply[size] = -1
      else
        while writes and all do
          call(writes[1], writes[2], writes[3], writes[4])
          writes = writes[5]
        end
        if record and changes and (all or charges == 1) then
          local parts = { pack('<BI2dd', STATES, charges, now, nanos) }
          for i = 1, charges do
            parts[i + 1] = pack('<I4', values[i] and #values[i] or 0) .. (values[i] or '')
          end
          call('PSETEX', record, retention, table.concat(parts))
        end
        for i = 1, charges do
          size = size + 1
          reply[size] = states[i]
        end
      end
    end
  end
end
return reply
