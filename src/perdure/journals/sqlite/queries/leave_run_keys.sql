-- They stay when the run goes, and count their time from its end.
UPDATE idempotency
SET ended_at = (SELECT ended_at FROM runs r WHERE r.run_id = idempotency.run_id)
WHERE run_id = ? AND ended_at IS NULL
