-- Those of the chosen that are still as they were when they were chosen.
SELECT run_key, run_id
FROM runs
WHERE run_id IN (SELECT value FROM json_each(:run_ids))
  AND ended_at < :before
  AND quarantined IS NULL
