INSERT INTO idempotency (tenant, key, body_hash, run_id, created_at)
VALUES (?, ?, ?, ?, ?)
