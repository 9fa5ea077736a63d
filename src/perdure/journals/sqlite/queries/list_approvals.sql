SELECT approval_id, run_id, node, state, tenant, requested_at, expires_at, decided_at, body
FROM approvals
WHERE TRUE
  AND state = :state                                              -- if state
  AND +tenant = :tenant                                           -- if tenant
  AND run_id = :run_id                                            -- if run_id
  AND (requested_at, approval_id) > (:cursor_at, :cursor_key)     -- if cursor_at
ORDER BY requested_at, approval_id
LIMIT :limit
