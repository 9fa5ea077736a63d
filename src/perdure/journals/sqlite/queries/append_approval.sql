INSERT INTO approvals (approval_id, run_id, node, state, tenant, requested_at, expires_at, decided_at, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (approval_id) DO UPDATE
SET state = excluded.state, expires_at = excluded.expires_at, decided_at = excluded.decided_at, body = excluded.body
WHERE approvals.run_id = excluded.run_id
