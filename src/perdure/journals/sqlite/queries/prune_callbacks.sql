DELETE FROM callbacks
WHERE callback_hash IN (
    SELECT callback_hash FROM callbacks WHERE received_at < :before ORDER BY received_at LIMIT 1000
)
RETURNING TRUE
