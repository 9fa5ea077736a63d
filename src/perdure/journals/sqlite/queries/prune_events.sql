DELETE FROM events
WHERE run_key = ?
