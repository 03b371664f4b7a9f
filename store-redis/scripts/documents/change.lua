-- Creates, replaces or deletes a document, if it has the expected version.
--
-- KEYS[1]  the document
-- KEYS[2]  the names
-- ARGV[1]  the name of the document
-- ARGV[2]  the expected version; empty if the document is expected not to exist
-- ARGV[3]  how many versions are kept, at least 1
-- ARGV[4]  the revision, without its number
-- ARGV[5]  the text; missing if the change is a deletion
-- reply    a list: '1' and the number of the new version; or, if nothing was changed, '0', the number of the current
--          version, empty if the document does not exist, and the number of the oldest version that is kept

local document, names = KEYS[1], KEYS[2]
local name, expected, kept, revision, text = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4], ARGV[5]

local latest, oldest = versions(document)
local current = ''
if latest then
  local newest = call('HGET', document, 'r' .. latest)
  if not is_readable(newest) then
    return FOREIGN_VERSION
  end
  if not is_deletion(newest) then
    current = tostring(latest)
  end
  -- A call whose reply was lost is sent again, and its first copy may arrive last. If one of them has won, that is the
  -- result, not a conflict with itself. A version that is replaced never returns, so the look-up is not needed if the
  -- expected one is current. A document that does not exist may have been created by this call, and deleted since.
  if expected == '' or expected ~= current then
    local id = change_id(revision)
    for version = latest, oldest, -1 do
      local known = call('HGET', document, 'r' .. version)
      if known and change_id(known) == id then
        return { '1', tostring(version) }
      end
    end
  end
end
if expected ~= current then
  return { '0', current, tostring(oldest or 1) }
end

local version = (latest or 0) + 1
local first = math.max(oldest or 1, version - kept + 1)
local fields = { 'latest', version, 'oldest', first, 'r' .. version, revision }
if text then
  fields[7], fields[8] = 't' .. version, text
end

-- A script that fails leaves what it has written. So commands that change nothing come first: each fails if it is not
-- permitted or if the key is of another type. A full server refuses only the first write of a script, and of these
-- commands only ZADD and HSET.
call('ZADD', names, 'XX', 0, '')
call('ZREM', names, '')
call('HDEL', document, '')
call('HSET', document, unpack(fields))
if current ~= '' then
  call('ZREM', names, name .. '\0' .. current)
end
if text then
  call('ZADD', names, 0, name .. '\0' .. version)
end
for dropped = oldest or 1, first - 1 do
  call('HDEL', document, 'r' .. dropped, 't' .. dropped)
end
return { '1', tostring(version) }
