INSERT INTO log_heads (run_id, position)
VALUES (?, ?)
ON CONFLICT (run_id) DO UPDATE SET position = excluded.position
