INSERT INTO triggers (
    tenant, name, trigger_id, life, head, kind, state, revision, workflow, hook, cursor, next_at, last_at, waiting,
    open, parked, error, body
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, name) DO UPDATE
SET
    trigger_id = excluded.trigger_id, life = excluded.life, head = excluded.head, kind = excluded.kind,
    state = excluded.state, revision = excluded.revision, workflow = excluded.workflow, hook = excluded.hook,
    cursor = excluded.cursor, next_at = excluded.next_at, last_at = excluded.last_at, waiting = excluded.waiting,
    open = excluded.open, parked = excluded.parked, error = excluded.error, body = excluded.body
WHERE triggers.life <= excluded.life
