-- Lists names of documents, with their current versions.
--
-- KEYS[1]  the names
-- ARGV[1]  where to start, and
-- ARGV[2]  where to end, both as ZRANGEBYLEX reads them
-- ARGV[3]  how many names to return at most
-- reply    a list: each name, a zero byte, and the number of the version, sorted by name

return redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', '0', ARGV[3])
