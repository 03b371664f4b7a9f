-- A rate on a scale on which one token is a whole number of units: core's Rate.
--
-- limit: period, token (units of one token), excess (nanoseconds by which a period exceeds its units), and derived from
--        them
--   is_even (a unit is a nanosecond), scale (units of a period)

local function set_rate(limit, token, excess)
  limit.token, limit.excess = token, excess
  limit.is_even = excess == ZERO
  limit.scale = limit.period - excess
end

-- Returns the unit that contains an instant.
local function units(limit, instant)
  if limit.is_even then
    return instant
  end
  local periods, rest = split(instant, limit.period)
  return instant - times(periods, limit.excess) - scale_up(rest, limit.excess, limit.period)
end

-- Returns the earliest instant of a unit.
local function instant_at(limit, unit)
  if limit.is_even then
    return unit
  end
  local periods, rest = split(unit, limit.scale)
  return unit + times(periods, limit.excess) + scale_up(rest, limit.excess, limit.scale)
end

