INSERT INTO notices (partition, run_id, from_run_id, body)
VALUES (?, ?, ?, ?)
