-- What the short scripts for buckets share: an uneven rate goes from nanoseconds to units and back as core's Pace does. The one
-- rounds down, the other up.

local function loss(amount, excess, of)
  local rest = amount % of
  local product = rest * excess
  local over = product % of
  local lost = (amount - rest) / of * excess + (product - over) / of
  if over > 0 then
    return lost + 1
  end
  return lost
end

