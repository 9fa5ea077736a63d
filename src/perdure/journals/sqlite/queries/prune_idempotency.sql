DELETE FROM idempotency
WHERE (tenant, key) IN (
    SELECT tenant, key FROM idempotency WHERE ended_at < :before ORDER BY ended_at LIMIT 1000
)
RETURNING TRUE
