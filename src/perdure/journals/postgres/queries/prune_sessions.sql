DELETE FROM perdure.sessions
WHERE token_hash IN (
    SELECT token_hash FROM perdure.sessions WHERE expires_at < :before ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
)
RETURNING TRUE
