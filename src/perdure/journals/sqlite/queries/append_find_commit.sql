SELECT commit_id
FROM events
WHERE run_key = ? AND seq = ?
