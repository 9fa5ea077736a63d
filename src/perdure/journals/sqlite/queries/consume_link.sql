-- To one caller alone: the row is locked from here to the end of the transaction.
UPDATE links
SET consumed_at = :now
WHERE token_hash = :token_hash
  AND approval_id = :approval_id
  AND decision = :decision
  AND consumed_at IS NULL
  AND expires_at > :now
RETURNING token_hash, tenant, approval_id, run_id, decision, approver, created_at, expires_at, consumed_at
