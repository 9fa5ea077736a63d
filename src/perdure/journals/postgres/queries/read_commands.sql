SELECT position, command_id, run_id, put_at, body
FROM perdure.commands
WHERE answered_at IS NULL
  AND position > :after
  AND partition = ANY (:partitions)  -- if partitions
ORDER BY position
LIMIT :limit
