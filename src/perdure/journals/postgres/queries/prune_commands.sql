DELETE FROM perdure.commands
WHERE position IN (
    SELECT position
    FROM perdure.commands
    WHERE answered_at < :before
    ORDER BY answered_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
)
RETURNING TRUE
