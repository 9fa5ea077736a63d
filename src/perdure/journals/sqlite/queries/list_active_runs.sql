SELECT run_id, seq, commit_id, quarantined, state, workflow, workflow_version, ir, partition, tenant, tags,
       generation, counter, busy, created_at, started_at, ended_at, error, parent
FROM runs
WHERE ended_at IS NULL
  AND quarantined IS NULL
  AND busy = 1  -- if busy
  AND run_id > :after
  AND partition IN (SELECT value FROM json_each(:partitions))  -- if partitions
ORDER BY run_id
LIMIT :limit
