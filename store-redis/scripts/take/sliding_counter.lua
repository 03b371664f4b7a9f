-- Takes from a sliding counter (../sliding_counter.lua), and deltas on one. a: the count; b: the period; c: the number of sub-buckets
repeat
  local into = now % (b / 1000)
  local periods = (now - into) / (b / 1000)
  into = into * 1000 + nanos
  -- Sub-bucket `part` starts ceil(part * period / parts) into the period. `whole` and `rest` keep products small.
  local rest = b % c
  local whole = (b - rest) / c
  local part = into / b * c
  part = part - part % 1
  -- The estimate may be one off.
  if part * whole + (part * rest + (-part * rest) % c) / c > into then
    part = part - 1
  elseif (part + 1) * whole + ((part + 1) * rest + (-(part + 1) * rest) % c) / c <= into then
    part = part + 1
  end
  local current, counts, used = periods * c + part, {}, 0
  if state then
    if #state < offset + 19 then
      break
    end
    local period_high, period_low, high, low, parts, length, at = unpack('>I2I6I2I6I2I2', state, offset)
    local age = current - high * 2 ^ 48 - low
    if period_high * 2 ^ 48 + period_low ~= b or parts ~= c or #state ~= at - 1 + 7 * length or age < 0 then
      break
    end
    for newer = 1, age < c and age or 0 do
      counts[newer] = 0
    end
    for older = age + 1, age + length < c and age + length or c do
      counts[older], at = unpack('>I7', state, at)
      used = used + counts[older]
    end
  end
  -- @only takes
  local room = a - used
  local fitting = (room - room % cost) / cost
  if fitting < 0 then
    fitting = 0
  elseif fitting > tries then
    fitting = tries
  end
  counts[1], used = (counts[1] or 0) + fitting * cost, used + fitting * cost
  -- @only deltas
  -- The age of the sub-bucket that the delta belongs to.
  local age, at = 1, dated and into + dated or into
  while age <= c and at < (part + 1 - age) * whole + ((part + 1 - age) * rest + (-(part + 1 - age) * rest) % c) / c do
    age = age + 1
  end
  if age <= c then
    for newer = #counts + 1, age do
      counts[newer] = 0
    end
    local before = counts[age]
    counts[age] = before + cost > 0 and before + cost or 0
    used = used + counts[age] - before
  end
  if used > 2 ^ 52 then
    break
  end
  -- @always
  if used == 0 then
    break
  end
  local length, newest = #counts, 1
  while counts[length] == 0 do
    length = length - 1
  end
  while counts[newest] == 0 do
    newest = newest + 1
  end
  for age = 1, length do
    counts[age] = pack('>I7', counts[age])
  end
  -- All of it has left once the newest count has: a period after the start of its sub-bucket.
  local leaving = part + 1 - newest
  local over, low, period_low = leaving % c, current % 2 ^ 48, b % 2 ^ 48
  span = (1 + (leaving - over) / c) * b + over * whole + (over * rest + (-over * rest) % c) / c - into
  fields = pack('>I2I6I2I6I2I2', (b - period_low) / 2 ^ 48, period_low, (current - low) / 2 ^ 48, low, c, length)
    .. table.concat(counts, '', 1, length)
  -- @only takes
  passed = fitting
  -- @only deltas
  passed = 1
  -- @always
until true
