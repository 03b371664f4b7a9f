
-- Decides runs of plain takes, in order, each all or nothing.
--
-- KEYS[i]  for each run the idempotency record, if it has one, and the states of its charges, in order
-- ARGV[1]  '<ddB'       the expiry margin and the retention of records in milliseconds, whether to read all values at once
--                       (no: keys repeat, or values are long); then for each group of runs
--          '<I4I2I2B'   the count of a run (1 if it has several charges), its number of charges, the number of runs that
--                       are equal except for their keys, and whether they have records; and for each charge
--          '<Bddddddd'  the form (src/take.rs), the cost, the block time and the parameters
-- reply    the time in microseconds and nanoseconds, then for each run its record in a list, if there is one; -1 if the
--          general script has to decide it, in which case it has changed nothing; otherwise for each charge the state
--          before the run: a number or the value (nil: there was none)

local keys, number, reply, size = KEYS, 0, { now, nanos }, 2
local margin, retention, reads_all, from = unpack('<ddB', input)
local found = reads_all == 1 and call('MGET', unpack_list(keys)) or {}
while from <= #input do
  local count, charges, runs, has_record, form, cost, block, a, b, c, d, e
  count, charges, runs, has_record, from = unpack('<I4I2I2B', input, from)
  local first_charge = from
  -- Nearly all runs have one charge and no record, and need none of the lists below.
  local is_single = charges == 1
  if is_single then
    form, cost, block, a, b, c, d, e, from = unpack('<Bddddddd', input, from)
  end
  for _ = 1, runs do
    local recorded, record = false, nil
    if has_record == 1 then
      number = number + 1
      record = keys[number]
      recorded = redis.pcall('GET', record)
    end
    if recorded then
      number, size, from = number + charges, size + 1, first_charge + charges * 57
      -- The general script reports what is wrong with a record of another type.
      reply[size] = recorded.err and -1 or { recorded }
    else
      -- What to do once all charges have passed: the states before, for the record and for the reply, and the writes.
      local states, answers, writes, is_plain, all, changes
      is_plain, all = true, true
      if not is_single then
        answers, from = {}, first_charge
      end
      if record then
        states = {}
      end
      for i = 1, charges do
        number = number + 1
        if not is_single then
          form, cost, block, a, b, c, d, e, from = unpack('<Bddddddd', input, from)
        end
        local key, value = keys[number], found[number]
        if not value then
          -- MGET returns nothing for a key of another type; GET returns an error.
          value = form == 7 and redis.pcall('GETRANGE', key, '0', LOG_START) or redis.pcall('GET', key)
          if type(value) == 'table' then
            value = 'an error'
          end
        end
        local before, ahead, passed, command, argument, after, more = value, nil, nil, nil, nil, nil, nil
@take
        -- A denial of one of several charges rarely changes its state. That is left to the general script.
        if not passed or (not is_single and passed == 0 and command) then
          is_plain = false
        elseif command then
          changes = changes or passed > 0 or block > 0
          if is_single then
            call(command, key, argument, after)
            for j = 1, more and #more or 0 do
              call(more[j][1], key, unpack_list(more[j], 2))
            end
          else
            writes = { key, { command, argument, after }, writes }
            for j = 1, more and #more or 0 do
              writes = { key, more[j], writes }
            end
          end
        end
        all = all and passed and passed > 0
        if record then
          states[i] = before or ''
        end
        if is_single then
          answers = ahead or before
        else
          answers[i] = ahead or before
        end
      end
      if not is_plain then
        size = size + 1
        reply[size] = -1
      else
        while writes and all do
          call(writes[2][1], writes[1], unpack_list(writes[2], 2))
          writes = writes[3]
        end
        if record and changes and (all or is_single) then
          local parts = { pack('<BI2dd', STATES, charges, now, nanos) }
          for i = 1, charges do
            parts[i + 1] = pack('<I4', #states[i]) .. states[i]
          end
          call('PSETEX', record, retention, table.concat(parts))
        end
        if is_single then
          size = size + 1
          reply[size] = answers
        else
          for i = 1, charges do
            size = size + 1
            reply[size] = answers[i]
          end
        end
      end
    end
  end
end
return reply
