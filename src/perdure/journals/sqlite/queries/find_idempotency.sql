SELECT run_id, body_hash
FROM idempotency
WHERE tenant = :tenant AND key = :key
