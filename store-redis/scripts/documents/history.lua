-- Reads the kept revisions of a document.
--
-- KEYS[1]  the document
-- reply    a list: the number and the revision of each kept version, the newest first

local document = KEYS[1]
local latest, oldest = versions(document)
local revisions = {}
if latest then
  for version = latest, oldest, -1 do
    local revision = call('HGET', document, 'r' .. version)
    if not is_readable(revision) then
      return FOREIGN_VERSION
    end
    revisions[#revisions + 1] = tostring(version)
    revisions[#revisions + 1] = revision
  end
end
return revisions
