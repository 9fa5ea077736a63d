DELETE FROM perdure.idempotency
WHERE (tenant, key) IN (
    SELECT tenant, key
    FROM perdure.idempotency
    WHERE ended_at < :before
    ORDER BY ended_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
)
RETURNING TRUE
