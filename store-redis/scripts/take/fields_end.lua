repeat
  -- @only deltas
  if passed and is_own and not fields then
    -- The state is a fresh one.
    command, after = value and 'DEL', ''
    break
  end
  -- @always
  if not passed or not is_own or blocked > 2 ^ 52 or not (fields or block > 0) then
    passed = nil
    break
  end
  local marker = ''
  if block > 0 then
    if passed < tries then
      local sum = now_low + block
      blocked, blocked_low = block, sum % 2 ^ 48
      blocked_high = now_high + (sum - blocked_low) / 2 ^ 48
    end
    span = blocked > span and blocked or span
    marker = pack('>I2I6B', blocked_high, blocked_low, fields and 1 or 0)
  end
  local sum = now_low + span
  local low = sum % 2 ^ 48
  local high = now_high + (sum - low) / 2 ^ 48
  after = fields or ''
  if value and high == fresh_high and low == fresh_low and (block == 0 or value:sub(10, 18) == marker) then
    -- Only the fields have changed, if anything.
    if passed == 0 and value:sub(offset) == after then
      break
    elseif not caller_time and #value == offset + #after - 1 then
      -- SETRANGE costs half as much as PSETEX, and keeps the time-to-live.
      command, argument = 'SETRANGE', block > 0 and '18' or '9'
      break
    end
  end
  local rest = span % 1e6
  local ttl = (span - rest) / 1e6 + (rest > 0 and 1 or 0) + margin
  command, argument = 'PSETEX', ttl > 0 and ttl or 1
  after = pack('>BI2I6', VERSION, high, low) .. marker .. after
until true
