INSERT INTO perdure.links (
    token_hash, tenant, approval_id, run_id, decision, approver, created_at, expires_at, consumed_at
)
VALUES (:token_hash, :tenant, :approval_id, :run_id, :decision, :approver, :created_at, :expires_at, :consumed_at)
