SELECT t.run_id, t.timer_id, t.due_at
FROM perdure.timers t JOIN perdure.runs r ON r.run_id = t.run_id
WHERE t.due_at <= :now
  AND r.quarantined IS NULL
  AND t.partition = ANY (:partitions)  -- if partitions
  AND t.run_id = ANY (:run_ids)  -- if run_ids
ORDER BY t.due_at
LIMIT :limit
