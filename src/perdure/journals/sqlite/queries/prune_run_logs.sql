DELETE FROM logs
WHERE run_id = ?
