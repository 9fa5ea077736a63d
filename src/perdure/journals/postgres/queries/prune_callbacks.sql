DELETE FROM perdure.callbacks
WHERE callback_hash IN (
    SELECT callback_hash FROM perdure.callbacks WHERE received_at < :before ORDER BY received_at LIMIT 1000 FOR UPDATE SKIP LOCKED
)
RETURNING TRUE
