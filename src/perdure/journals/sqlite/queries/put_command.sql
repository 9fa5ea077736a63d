INSERT INTO commands (command_id, run_id, partition, put_at, body)
VALUES (:command_id, :run_id, :partition, :put_at, :body)
ON CONFLICT (command_id) DO NOTHING
