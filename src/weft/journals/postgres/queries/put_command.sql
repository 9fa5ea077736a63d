-- The function keeps the order of positions: migrations/0002_append.sql.
SELECT weft.put_command(:command_id, :run_id, :partition, :put_at, :body)
