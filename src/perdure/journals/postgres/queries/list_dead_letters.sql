SELECT dead_letter_id, run_id, node, state, tenant, created_at, resolved_at, body
FROM perdure.dead_letters
WHERE TRUE
  AND state = :state                                            -- if state
  AND tenant = :tenant                                          -- if tenant
  AND run_id = :run_id                                          -- if run_id
  AND (created_at, dead_letter_id) > (:cursor_at, :cursor_key)  -- if cursor_at
ORDER BY created_at, dead_letter_id
LIMIT :limit
