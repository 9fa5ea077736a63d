-- The last condition is the fence.
UPDATE runs
SET seq = ?, commit_id = ?, counter = ?, state = ?, busy = ?, ir = ?, generation = ?, started_at = ?, ended_at = ?, error = ?
WHERE run_key = ? AND seq = ?
