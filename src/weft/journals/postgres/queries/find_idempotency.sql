SELECT run_id, body_hash
FROM weft.idempotency
WHERE tenant = :tenant AND key = :key
