DELETE FROM commands
WHERE position IN (
    SELECT position FROM commands WHERE answered_at < :before ORDER BY answered_at LIMIT 1000
)
