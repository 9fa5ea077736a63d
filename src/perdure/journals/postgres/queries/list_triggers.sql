SELECT
    tenant, name, trigger_id, life, head, kind, state, revision, workflow, hook, cursor, next_at, last_at, waiting,
    open, parked, error, body
FROM perdure.triggers
WHERE TRUE
  AND tenant = :tenant                                  -- if tenant
  AND kind = :kind                                      -- if kind
  AND state = :state                                    -- if state
  AND state <> 'deleted'                                -- if live
  AND (tenant, name) > (:cursor_tenant, :cursor_name)   -- if cursor_name
ORDER BY tenant, name
LIMIT :limit
