-- Takes from a sliding counter (sliding_counter.lua).

steps[SLIDING_COUNTER] = function(value, from, tries, cost, count, period, parts)
  local micros = period / 1000
  local into = now % micros
  local periods = (now - into) / micros
  into = into * 1000 + nanos
  -- Returns how far into the period a sub-bucket starts: ceil(part * period / parts).
  local whole, rest = (period - period % parts) / parts, period % parts
  local function start_of(part)
    local product = part * rest
    local over = product % parts
    return part * whole + (product - over) / parts + (over > 0 and 1 or 0)
  end
  -- The estimate may be one off.
  local part = into / period * parts
  part = part - part % 1
  if start_of(part) > into then
    part = part - 1
  elseif start_of(part + 1) <= into then
    part = part + 1
  end
  local current, counts, used = periods * parts + part, {}, 0
  if value then
    if #value < from + 19 then
      return nil
    end
    local period_high, period_low, high, low, stored_parts, length = unpack('>I2I6I2I6I2I2', value, from)
    if period_high * BASE + period_low ~= period or stored_parts ~= parts or #value ~= from + 19 + 7 * length then
      return nil
    end
    local passed = current - high * BASE - low
    if passed < 0 then
      return nil
    end
    local at = from + 20
    for age = 1, passed + length < parts and passed + length or parts do
      local number = 0
      if age > passed then
        number, at = unpack('>I7', value, at)
      end
      counts[age], used = number, used + number
    end
  end
  local passed = fitting(count - used, tries, cost)
  counts[1], used = (counts[1] or 0) + passed * cost, used + passed * cost
  if used == 0 then
    return nil
  end
  local length, newest = #counts, 1
  while counts[length] == 0 do
    length = length - 1
  end
  while counts[newest] == 0 do
    newest = newest + 1
  end
  local packed = {}
  for age = 1, length do
    packed[age] = pack('>I7', counts[age])
  end
  -- The newest count leaves the window with its sub-bucket.
  local leaving = part - (newest - 1)
  local over = leaving % parts
  local low, period_low = current % BASE, period % BASE
  local fields = pack('>I2I6I2I6I2I2', (period - period_low) / BASE, period_low, (current - low) / BASE, low, parts,
    length) .. table.concat(packed)
  return passed, fields, (1 + (leaving - over) / parts) * period + start_of(over) - into
end
