-- How documents are stored, for the scripts that read or change them.
--
-- A document is a hash:
--   latest  the number of the newest version; oldest: that of the oldest version that is kept
--   r<n>    the revision of version n: '>B B c16', the format, 1 if it is a deletion, and the id of the change; then
--           what only src/documents/revision.rs reads
--   t<n>    the text of version n, unless it is a deletion
-- The names are a sorted set in which all scores are zero. For each document that exists, it has a member: the name, a
-- zero byte, and the number of the current version. Names have no control characters, so the set is sorted by name.
-- Neither expires: a deleted document keeps its history, so that its versions go on when it is created again.

local call = redis.call
local FORMAT = '\1'
local FOREIGN_VERSION = { err = 'TOLLGATE the stored document was written by another version' }

-- Returns the numbers of the newest version and of the oldest that is kept; nothing if there never was a document.
local function versions(document)
  local numbers = call('HMGET', document, 'latest', 'oldest')
  if numbers[1] and numbers[2] then
    return numbers[1] + 0, numbers[2] + 0
  end
end

-- Returns whether a revision is in the format of these scripts.
local function is_readable(revision)
  return revision and revision:sub(1, 1) == FORMAT
end

local function is_deletion(revision)
  return revision:byte(2) == 1
end

local function change_id(revision)
  return revision:sub(3, 18)
end
