if passed and passed < tries then
  -- A denial starts the block. The next take sets the time-to-live again.
  local sum = now_low + block
  low = sum % 2 ^ 48
  high = now_high + (sum - low) / 2 ^ 48
  local at, mark = unpack('<dd', after or state)
  local span = (at - now) * 1000 + 1000
  span = span > block and span or block
  command, argument, after = 'PSETEX', (span - span % 1e6) / 1e6 + 1 + margin, pack('<ddd', at, mark, 0)
end
if command == 'PSETEX' then
  after = after .. pack('>I2I6', high, low)
end
