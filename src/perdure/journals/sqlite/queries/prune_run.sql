-- Tags, snapshot, timers, approvals, dead letters and idempotency keys go with it.
DELETE FROM runs
WHERE run_key = ?
