SELECT run_id, timer_id, due_at
FROM timers CROSS JOIN runs USING (run_key)
WHERE due_at <= :now
  AND quarantined IS NULL
  AND timers.partition IN (SELECT value FROM json_each(:partitions))  -- if partitions
  AND run_id IN (SELECT value FROM json_each(:run_ids))  -- if run_ids
ORDER BY due_at
LIMIT :limit
