-- Forgets an operation, so that its effect can be given back once, and a repetition is executed again.
--
-- KEYS[1]  what is remembered of the operation
-- reply    '1' if it was remembered, '0' if not

return tostring(redis.call('DEL', KEYS[1]))
