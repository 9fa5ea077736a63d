DELETE FROM log_heads
WHERE run_id = ?
