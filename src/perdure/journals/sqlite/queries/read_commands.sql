SELECT position, command_id, run_id, put_at, body
FROM commands
WHERE answered_at IS NULL
  AND position > :after
  AND partition IN (SELECT value FROM json_each(:partitions))  -- if partitions
ORDER BY position
LIMIT :limit
