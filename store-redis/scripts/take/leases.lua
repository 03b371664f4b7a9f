-- Acquires, renews and releases leases of a concurrency limit (../concurrency.lua). a: the number of slots; b: the lease
-- time; c: the code of the action (../algorithm.lua); lease: the id, which is not anonymous
--
-- `value` is a list of the header and the earliest leases. The reply has a set of leases from which the same follows:
-- the lease itself, and all others as one or two anonymous ones.
repeat
  local TAKE, RELEASE = 1, 7
  local head, used, latest_high, latest_low = value[1], 0, 0, 0
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
  end
  -- The lease, if it is held.
  local own, slots, own_high, own_low = nil, 0, 0, 0
  if head then
    own = call('ZRANGEBYLEX', key, '[n' .. lease, '[n' .. lease .. ('\255'):rep(13), 'LIMIT', 0, 1)[1]
    if own then
      own_high, own_low, slots = unpack('>I2I6I4', own, 18)
    end
  end
  local others, excess = used - slots, 0
  local own_expiry = own and 'l' .. pack('>I2I6c16I4', own_high, own_low, lease, slots)
  if c == TAKE then
    excess = others + cost - a
  end
  -- Of the others: how many slots expire until enough are free, and when the last of these does.
  local early, early_high, early_low = 0, 0, 0
  for i = 2, #value do
    if early >= excess or value[i]:byte() ~= 108 then
      break
    elseif value[i] ~= own_expiry then
      local high, low, _, held = unpack('>I2I6c16I4', value[i], 2)
      early, early_high, early_low = early + held, high, low
    end
  end
  if early < excess then
    break
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
    local anonymous, leases = ('\0'):rep(16), {}
    if own then
      leases[1] = { own_high, own_low, own_expiry }
    end
    if early_high == rest_high and early_low == rest_low then
      -- Anonymous leases with the same expiry are one.
      early = others
    end
    if early > 0 then
      leases[#leases + 1] = { early_high, early_low, 'l' .. pack('>I2I6c16I4', early_high, early_low, anonymous, early) }
    end
    if others > early then
      local late = 'l' .. pack('>I2I6c16I4', rest_high, rest_low, anonymous, others - early)
      leases[#leases + 1] = { rest_high, rest_low, late }
    end
    table.sort(leases, function(one, other)
      return one[1] < other[1] or (one[1] == other[1] and one[2] < other[2])
    end)
    before = pack('>I2', 18) .. head:sub(1, 18)
    for i = 1, #leases do
      before = before .. pack('>I2', 29) .. leases[i][3]
    end
  end
  if passed == 0 then
    break
  end
  if others + added == 0 then
    more = { { 'UNLINK' } }
    break
  end
  local after_head = 'h'
    .. pack('>BI2I6I2I6I2I6I7', VERSION, last_high, last_low, 0, 0, last_high, last_low, others + added)
  local old, new = {}, {}
  if after_head ~= head then
    old[1], new[1], new[2] = head, 0, after_head
  end
  if own and not (added == slots and high == own_high and low == own_low) then
    old[#old + 1], old[#old + 2] = own_expiry, own
  end
  if added > 0 and not (own and added == slots and high == own_high and low == own_low) then
    new[#new + 1], new[#new + 2] = 0, 'l' .. pack('>I2I6c16I4', high, low, lease, added)
    new[#new + 1], new[#new + 2] = 0, 'n' .. pack('>c16I2I6I4', lease, high, low, added)
  end
  local span = (last_high - now_high) * 2 ^ 48 + last_low - now_low
  local rest = span % 1e6
  more = {}
  if #new > 0 then
    more[1] = { 'ZADD', unpack_list(new) }
  end
  if #old > 0 then
    more[#more + 1] = { 'ZREM', unpack_list(old) }
  end
  if #more > 0 then
    more[#more + 1] = { 'PEXPIRE', (span - rest) / 1e6 + (rest > 0 and 1 or 0) + margin }
  end
until true
