-- Takes from a sliding log (../sliding_log.lua) without a minimum gap that does not count denials. a: the count; b: the
-- period
--
-- `value` is only the start of the value. The reply has a log without the entries that the decision does not depend on.
repeat
  local first, live, newest, sum, past, blocked = 0, 0, 0, 0, 0, 0
  local head, fresh_high, fresh_low, blocked_high, blocked_low, is_pruned = nil, 0, 0, 0, 0, false
  if value and value ~= '' then
    if #value < 48 or value:byte() ~= VERSION then
      break
    end
    local high, low
    fresh_high, fresh_low, high, low = unpack('>I2I6I2I6', value, 2)
    if (fresh_high - now_high) * 2 ^ 48 + fresh_low - now_low > 0 then
      blocked_high, blocked_low, head = high, low, value:sub(1, 17)
      blocked = (high - now_high) * 2 ^ 48 + low - now_low
      first, live, high, low, sum, past = unpack('>I4I4I2I6I7I7', value, 18)
      newest = (high - now_high) * 2 ^ 48 + low - now_low
      -- A log of another form has corrections, or an entry without a cost.
      if blocked > 2 ^ 52 or newest > 0 or past >= 2 ^ 51 or value:byte(48) ~= 1 then
        break
      end
    else
      is_pruned = true
    end
  end
  -- Entry i is in `entries` after the first skip + i * 15 bytes. Some of the live ones are read, which usually suffices.
  local entries, skip = value or '', 48
  if live > 1 and first > 32 then
    entries, skip = call('GETRANGE', key, 48 + first * 15, 47 + (first + 64) * 15), -first * 15
  end
  if live > 0 and newest <= -b then
    first, live, sum, past, is_pruned = 0, 0, 0, 0, true
  end
  while live > 1 and skip + first * 15 + 15 <= #entries do
    local high, low, upto = unpack('>I2I6I7', entries, skip + first * 15 + 1)
    if (high - now_high) * 2 ^ 48 + low - now_low > -b then
      break
    end
    first, live, past, is_pruned = first + 1, live - 1, upto, true
  end
  if live > 1 and skip + first * 15 + 15 > #entries then
    break
  end
  local tries, used = blocked > 0 and 0 or count, sum - past
  local room = a - used
  local fitting = (room - room % cost) / cost
  if fitting < 0 then
    fitting = 0
  elseif fitting > tries then
    fitting = tries
  end
  -- The next take has to wait until the entry that reaches this sum expires. Only that and the newest matter.
  local excess, last, reached = used + (fitting + 1) * cost - a, first + live - 1, ''
  if excess > 0 and excess <= used then
    local index, high, low, upto = first, 0, 0, past
    while index < last and upto - past < excess and skip + index * 15 + 15 <= #entries do
      high, low, upto = unpack('>I2I6I7', entries, skip + index * 15 + 1)
      index = index + 1
    end
    if upto - past >= excess then
      reached = pack('>I2I6I7', high, low, upto - past)
    elseif index < last then
      break
    end
  end
  local total = now_low + newest
  local newest_low = total % 2 ^ 48
  local newest_high = now_high + (total - newest_low) / 2 ^ 48
  before = ''
  if head then
    before = head .. pack('>I4I4I2I6I7I7B', 0, live == 0 and 0 or reached == '' and 1 or 2, newest_high, newest_low, used,
      0, 1) .. reached
  end
  -- What is added to the stored entries: the newest one, if the take becomes the newest.
  local entry = ''
  if fitting > 0 then
    if live > 0 and newest < 0 then
      entry = pack('>I2I6I7', newest_high, newest_low, sum)
    end
    if live == 0 or newest < 0 then
      live, newest, newest_high, newest_low = live + 1, 0, now_high, now_low
    end
    sum = sum + fitting * cost
  end
  local is_changed = fitting > 0 or is_pruned
  if block > 0 and fitting < tries then
    total = now_low + block
    blocked, blocked_low, is_changed = block, total % 2 ^ 48, true
    blocked_high = now_high + (total - blocked_low) / 2 ^ 48
  end
  local span = newest + b > blocked and newest + b or blocked
  total = now_low + span
  local low = total % 2 ^ 48
  local high = now_high + (total - low) / 2 ^ 48
  if not is_changed and high == fresh_high and low == fresh_low then
    passed = 0
    break
  end
  -- A log of few entries is written as a whole, which is one command instead of three.
  local stored = live - 1
  local kept, is_short = entry == '' and stored or stored - 1, stored <= 32
  if live == 0 or (is_short and kept > 0 and skip + (first + kept) * 15 > #entries) or not (is_short or first <= stored) then
    break
  end
  local rest = span % 1e6
  local ttl = (span - rest) / 1e6 + (rest > 0 and 1 or 0) + margin
  ttl = ttl > 0 and ttl or 1
  after = pack('>BI2I6I2I6I4I4I2I6I7I7B', VERSION, high, low, blocked_high, blocked_low, is_short and 0 or first, live,
    newest_high, newest_low, sum, past, 1)
  if is_short then
    if kept > 0 then
      after = after .. entries:sub(skip + first * 15 + 1, skip + (first + kept) * 15)
    end
    command, argument, after = 'PSETEX', ttl, after .. entry
  else
    command, argument, more = 'SETRANGE', '0', { { 'PEXPIRE', ttl } }
    if entry ~= '' then
      more[2] = { 'SETRANGE', 48 + last * 15, entry }
    end
  end
  passed = fitting
until true
