-- Deletes an idempotency record, so that its request can be refunded once, and a repetition is executed again.
--
-- KEYS[1]  the idempotency record
-- reply    '1' if it existed, '0' if not

return tostring(redis.call('DEL', KEYS[1]))
