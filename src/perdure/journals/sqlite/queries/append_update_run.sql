-- Every index of what is set is written anew, changed or not. The last condition is the fence.
UPDATE runs
SET seq = ?, commit_id = ?, counter = ?, started_at = ?, state = ?, busy = ?, ir = ?, generation = ?, ended_at = ?, error = ?
WHERE run_key = ? AND seq = ?
