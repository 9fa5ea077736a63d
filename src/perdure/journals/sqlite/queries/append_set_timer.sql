INSERT INTO timers (run_key, timer_id, due_at, partition)
VALUES (?, ?, ?, ?)
ON CONFLICT (run_key, timer_id) DO UPDATE SET due_at = excluded.due_at
