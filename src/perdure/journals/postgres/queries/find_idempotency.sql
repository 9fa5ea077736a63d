SELECT run_id, body_hash
FROM perdure.idempotency
WHERE tenant = :tenant AND key = :key
