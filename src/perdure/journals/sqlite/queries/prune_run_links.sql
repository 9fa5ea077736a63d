DELETE FROM links
WHERE run_id = ?
