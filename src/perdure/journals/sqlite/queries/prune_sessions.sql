DELETE FROM sessions
WHERE token_hash IN (
    SELECT token_hash FROM sessions WHERE expires_at < :before ORDER BY expires_at LIMIT 1000
)
RETURNING TRUE
