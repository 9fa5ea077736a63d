SELECT token_hash, tenant, approval_id, run_id, decision, approver, created_at, expires_at, consumed_at
FROM perdure.links
WHERE token_hash = :token_hash
