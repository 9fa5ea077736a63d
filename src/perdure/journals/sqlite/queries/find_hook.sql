SELECT
    tenant, name, trigger_id, life, head, kind, state, revision, workflow, hook, cursor, next_at, last_at, waiting,
    open, parked, error, body
FROM triggers
WHERE hook = :hook AND state <> 'deleted'
LIMIT 1
