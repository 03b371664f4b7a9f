-- Reads the current version of a document.
--
-- KEYS[1]  the document
-- ARGV[1]  the version whose text is not needed; empty if there is none
-- reply    a list: the number of the version, its revision and its text; only the number if it is that of ARGV[1];
--          empty if the document does not exist

local document = KEYS[1]
local latest = versions(document)
if not latest then
  return {}
end
local revision = call('HGET', document, 'r' .. latest)
if not is_readable(revision) then
  return FOREIGN_VERSION
end
if is_deletion(revision) then
  return {}
end
local version = tostring(latest)
if version == ARGV[1] then
  return { version }
end
return { version, revision, call('HGET', document, 't' .. latest) or '' }
