-- Tags, snapshot, timers, approvals and dead letters go with it.
DELETE FROM runs
WHERE run_key = ?
