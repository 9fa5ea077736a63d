INSERT INTO events (run_key, seq, type, at, commit_id, body)
VALUES (?, ?, ?, ?, ?, ?)
