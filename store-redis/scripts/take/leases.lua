-- Acquires, renews and releases leases of a concurrency limit (../concurrency.lua). a: the number of slots; b: the lease
-- time; c: the code of the action (../algorithm.lua); lease: the id, which is not anonymous
--
-- `value` is a list of the header and the earliest lease. The reply has a set of leases from which the same follows:
-- the lease itself, and all others as one or two anonymous ones. The block writes the changes itself, because they are
-- several members.
repeat
  local TAKE, RELEASE = 1, 7
  local ANONYMOUS = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  local head, used, latest_high, latest_low = value[1], 0, 0, 0
  -- The lease, if it is held.
  local own, slots, own_high, own_low, own_expiry = nil, 0, 0, 0, nil
  before = nil
  if head then
    if head:byte() ~= 104 or head:byte(2) ~= VERSION then
      break
    end
    local fresh_high, fresh_low, blocked_high, blocked_low
    fresh_high, fresh_low, blocked_high, blocked_low, latest_high, latest_low, used = unpack('>I2I6I2I6I2I6I7', head, 3)
    if (fresh_high - now_high) * 2 ^ 48 + fresh_low - now_low <= 0 or blocked_high + blocked_low > 0 or used == 0 then
      break
    end
    local high, low = unpack('>I2I6', value[2], 2)
    if (high - now_high) * 2 ^ 48 + low - now_low <= 0 then
      -- Expired leases have to be removed.
      break
    end
    own = call('ZRANGEBYLEX', key, '[n' .. lease, '[n' .. lease
      .. '\255\255\255\255\255\255\255\255\255\255\255\255\255', 'LIMIT', '0', '1')[1]
    if own then
      own_high, own_low, slots = unpack('>I2I6I4', own, 18)
      own_expiry = pack('>BI2I6c16I4', 108, own_high, own_low, lease, slots)
    end
  end
  local others, excess = used - slots, c == TAKE and used - slots + cost - a or 0
  -- Of the others: how many slots expire until enough are free, and when the last of these does.
  local early, early_high, early_low = 0, 0, 0
  if excess > 0 then
    local earliest = call('ZRANGE', key, '1', '7')
    for i = 1, #earliest do
      if early >= excess or earliest[i]:byte() ~= 108 then
        break
      elseif earliest[i] ~= own_expiry then
        local high, low, _, held = unpack('>I2I6c16I4', earliest[i], 2)
        early, early_high, early_low = early + held, high, low
      end
    end
    if early < excess then
      break
    end
  end
  -- The lease after the call, and when the last of all leases expires then.
  local added, last_high, last_low = c == TAKE and cost or slots, latest_high, latest_low
  local sum = now_low + b
  local low = sum % 2 ^ 48
  local high = now_high + (sum - low) / 2 ^ 48
  local is_latest = own and own_high == latest_high and own_low == latest_low
  if c == RELEASE then
    added = 0
    if is_latest and others > 0 then
      -- Every lease has two members, and the header has rank 0.
      local rank = (call('ZCARD', key) - 1) / 2
      local two = call('ZRANGE', key, rank - 1, rank)
      last_high, last_low = unpack('>I2I6', two[2] == own_expiry and two[1] or two[2], 2)
    end
  elseif high > latest_high or (high == latest_high and low >= latest_low) then
    last_high, last_low = high, low
  elseif is_latest then
    break
  end
  passed = excess <= 0 and (c == TAKE or own) and 1 or 0
  if head then
    -- The others, as of their last expiry if that follows from this call, and of the latest of all otherwise.
    local rest_high, rest_low = latest_high, latest_low
    if c == RELEASE then
      rest_high, rest_low = last_high, last_low
    end
    if early_high == rest_high and early_low == rest_low then
      -- Anonymous leases with the same expiry are one.
      early = others
    end
    -- In the order of their expiry.
    local own_entry, early_entry, late_entry = '', '', ''
    if own then
      own_entry = pack('>I2', 29) .. own_expiry
    end
    if early > 0 then
      early_entry = pack('>I2BI2I6c16I4', 29, 108, early_high, early_low, ANONYMOUS, early)
    end
    if others > early then
      late_entry = pack('>I2BI2I6c16I4', 29, 108, rest_high, rest_low, ANONYMOUS, others - early)
    end
    if own_high < early_high or (own_high == early_high and own_low < early_low) then
      early_entry = own_entry .. early_entry
    elseif own_high < rest_high or (own_high == rest_high and own_low < rest_low) then
      late_entry = own_entry .. late_entry
    else
      late_entry = late_entry .. own_entry
    end
    before = pack('>I2', 18) .. head:sub(1, 18) .. early_entry .. late_entry
  end
  if passed == 0 then
    break
  end
  more = {}
  if others + added == 0 then
    call('UNLINK', key)
    break
  end
  local after_head = pack('>BBI2I6I2I6I2I6I7', 104, VERSION, last_high, last_low, 0, 0, last_high, last_low, others + added)
  local has_same_lease = own and added == slots and high == own_high and low == own_low
  if after_head == head and (has_same_lease or (not own and added == 0)) then
    break
  end
  if added > 0 and not has_same_lease then
    call('ZADD', key, '0', after_head, '0', pack('>BI2I6c16I4', 108, high, low, lease, added), '0',
      pack('>Bc16I2I6I4', 110, lease, high, low, added))
  elseif after_head ~= head then
    call('ZADD', key, '0', after_head)
  end
  if own and not has_same_lease then
    if after_head ~= head then
      call('ZREM', key, head, own_expiry, own)
    else
      call('ZREM', key, own_expiry, own)
    end
  elseif head and after_head ~= head then
    call('ZREM', key, head)
  end
  local span = (last_high - now_high) * 2 ^ 48 + last_low - now_low
  local rest = span % 1e6
  call('PEXPIRE', key, (span - rest) / 1e6 + (rest > 0 and 1 or 0) + margin)
until true
