INSERT INTO snapshots (run_key, seq, version, body)
VALUES (?, ?, ?, ?)
ON CONFLICT (run_key) DO UPDATE SET seq = excluded.seq, version = excluded.version, body = excluded.body
