DELETE FROM idempotency
WHERE (tenant, key) IN (
    SELECT tenant, key FROM idempotency WHERE created_at < :before ORDER BY created_at LIMIT 1000
)
