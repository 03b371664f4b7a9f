-- A rate on a scale on which one token is a whole number of units: core's Pace.
--
-- limit: period, token (units of one), excess (nanoseconds of a period beyond its units), and made of them
--   even (a unit is a nanosecond), scale (units of a period)

local function set_pace(limit, token, excess)
  limit.token, limit.excess = token, excess
  limit.even = excess == ZERO
  limit.scale = limit.period - excess
end

-- The unit that an instant lies in.
local function units(limit, instant)
  if limit.even then
    return instant
  end
  local periods, rest = split(instant, limit.period)
  return instant - times(periods, limit.excess) - scale_up(rest, limit.excess, limit.period)
end

-- The earliest instant in a unit.
local function instant_at(limit, unit)
  if limit.even then
    return unit
  end
  local periods, rest = split(unit, limit.scale)
  return unit + times(periods, limit.excess) + scale_up(rest, limit.excess, limit.scale)
end
