-- Reads a kept version of a document.
--
-- KEYS[1]  the document
-- ARGV[1]  the number of the version
-- reply    a list: the number of the version, its revision and its text; empty if it is not kept, or is a deletion

local stored = call('HMGET', KEYS[1], 'r' .. ARGV[1], 't' .. ARGV[1])
if not stored[1] then
  return {}
end
if not is_readable(stored[1]) then
  return FOREIGN_VERSION
end
if is_deletion(stored[1]) then
  return {}
end
return { ARGV[1], stored[1], stored[2] or '' }
