DELETE FROM timers
WHERE run_key = ? AND timer_id = ?
