SELECT approval_id, run_id, node, state, tenant, requested_at, expires_at, decided_at, body
FROM approvals
WHERE approval_id = :id
