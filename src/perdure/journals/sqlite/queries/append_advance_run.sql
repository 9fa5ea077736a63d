-- Most commits: nothing that an index knows has changed. The last condition is the fence.
UPDATE runs
SET seq = ?, commit_id = ?, counter = ?, started_at = ?
WHERE run_key = ? AND seq = ?
