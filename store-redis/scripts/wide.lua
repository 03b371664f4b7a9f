-- Whole numbers up to 2^64 and beyond. Lua's numbers are doubles, exact to 2^53; an instant in nanoseconds is larger.
--
-- A wide number is {h, l}, worth h * BASE + l. It is immutable. It adds, compares and subtracts (saturating at zero)
-- with the usual operators, and is the eight bytes of an unsigned word on the wire, '>I2I6'. Counts, costs and other
-- numbers that fit are plain Lua numbers.

local floor = math.floor

local Wide = {}

local function wide(h, l)
  return setmetatable({ h, l }, Wide)
end

Wide.__add = function(a, b)
  local h, l = a[1] + b[1], a[2] + b[2]
  if l >= BASE then
    return wide(h + 1, l - BASE)
  end
  return wide(h, l)
end

-- Saturates at zero.
Wide.__sub = function(a, b)
  local h, l = a[1] - b[1], a[2] - b[2]
  if l < 0 then
    h, l = h - 1, l + BASE
  end
  if h < 0 then
    return wide(0, 0)
  end
  return wide(h, l)
end

Wide.__lt = function(a, b)
  return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2])
end

Wide.__le = function(a, b)
  return a[1] < b[1] or (a[1] == b[1] and a[2] <= b[2])
end

Wide.__eq = function(a, b)
  return a[1] == b[1] and a[2] == b[2]
end

local ZERO = wide(0, 0)
-- The latest instant: core's Time::MAX.
local END_OF_TIME = wide(2 ^ 14 - 1, BASE - 1)

-- Converts an exact plain number.
local function of(number)
  local l = number % BASE
  return wide((number - l) / BASE, l)
end

-- Converts to a plain number: exact below 2^53, approximate above.
local function plain(a)
  return a[1] * BASE + a[2]
end

local function least(a, b)
  if b < a then
    return b
  end
  return a
end

local function most(a, b)
  if a < b then
    return b
  end
  return a
end

-- Long multiplication and division use limbs whose products are exact.
local LIMB = 2 ^ 24

local function limbs(a)
  local low, high = a[2] % LIMB, a[1] % LIMB
  local all = { low, (a[2] - low) / LIMB, high, (a[1] - high) / LIMB }
  while #all > 1 and all[#all] == 0 do
    all[#all] = nil
  end
  return all
end

local function from_limbs(all)
  return wide((all[3] or 0) + (all[4] or 0) * LIMB, all[1] + (all[2] or 0) * LIMB)
end

local function multiply(a, b)
  local product = {}
  for i = 1, #a + #b do
    product[i] = 0
  end
  for i = 1, #a do
    local carry = 0
    for j = 1, #b do
      local sum = product[i + j - 1] + a[i] * b[j] + carry
      local limb = sum % LIMB
      product[i + j - 1] = limb
      carry = (sum - limb) / LIMB
    end
    product[i + #b] = carry
  end
  while #product > 1 and product[#product] == 0 do
    product[#product] = nil
  end
  return product
end

-- Returns the quotient of two numbers in limbs. Changes `rest`, which is the remainder afterwards.
local function divide(rest, by)
  local size, quotient = #by, { 0 }
  -- The two leading limbs give an estimate that is slightly too large at most, never too small.
  local lead = by[size] * LIMB + (by[size - 1] or 0)
  rest[#rest + 1] = 0
  for at = #rest - size, 1, -1 do
    local top = (rest[at + size] * LIMB + rest[at + size - 1]) * LIMB + (rest[at + size - 2] or 0)
    local digit = floor(top / lead) + 1
    if digit >= LIMB then
      digit = LIMB - 1
    end
    local borrow = 0
    for i = 1, size do
      local left = rest[at + i - 1] - digit * by[i] - borrow
      local limb = left % LIMB
      rest[at + i - 1] = limb
      borrow = (limb - left) / LIMB
    end
    rest[at + size] = rest[at + size] - borrow
    while rest[at + size] < 0 do
      digit = digit - 1
      local carry = 0
      for i = 1, size do
        local sum = rest[at + i - 1] + by[i] + carry
        local limb = sum % LIMB
        rest[at + i - 1] = limb
        carry = (sum - limb) / LIMB
      end
      rest[at + size] = rest[at + size] + carry
    end
    quotient[at] = digit
  end
  while #quotient > 1 and quotient[#quotient] == 0 do
    quotient[#quotient] = nil
  end
  return quotient
end

local function is_zero(all)
  for i = 1, #all do
    if all[i] ~= 0 then
      return false
    end
  end
  return true
end

-- Returns floor(a * b / c), and whether there is a remainder.
local function scale(a, b, c)
  local x, y, z = plain(a), plain(b), plain(c)
  local product = x * y
  if product < 2 ^ 53 and z < 2 ^ 53 then
    local left = product % z
    return of((product - left) / z), left > 0
  end
  local rest = multiply(limbs(a), limbs(b))
  local quotient = divide(rest, limbs(c))
  return from_limbs(quotient), not is_zero(rest)
end

local function scale_down(a, b, c)
  return (scale(a, b, c))
end

local function scale_up(a, b, c)
  local quotient, left = scale(a, b, c)
  if left then
    return quotient + wide(0, 1)
  end
  return quotient
end

-- Returns a * b, which must fit.
local function times(a, b)
  return from_limbs(multiply(limbs(a), limbs(b)))
end

-- Returns an instant given in seconds and nanoseconds.
local function instant_of(seconds, nanos)
  return wide(instant_words(seconds, nanos))
end

-- Returns the whole seconds and the nanoseconds of a wide number. 2^48 is 281474 seconds and 976710656 nanoseconds.
local function seconds_of(a)
  local nanos = a[1] * 976710656 + a[2]
  local rest = nanos % 1e9
  return a[1] * 281474 + (nanos - rest) / 1e9, rest
end

-- Returns a / b and a % b.
local function split(a, b)
  local seconds, nanos = seconds_of(b)
  if nanos == 0 then
    -- Periods of whole seconds, the usual case, need no long division.
    local s, n = seconds_of(a)
    local rest = s % seconds
    return of((s - rest) / seconds), instant_of(rest, n)
  end
  if a < b then
    return ZERO, a
  end
  local rest = limbs(a)
  local quotient = divide(rest, limbs(b))
  return from_limbs(quotient), from_limbs(rest)
end
