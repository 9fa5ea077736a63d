DELETE FROM perdure.idempotency
WHERE (tenant, key) IN (
    SELECT tenant, key
    FROM perdure.idempotency
    WHERE created_at < :before
    ORDER BY created_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
)
RETURNING TRUE
