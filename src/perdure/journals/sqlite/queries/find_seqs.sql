SELECT run_id, seq
FROM runs
WHERE run_id IN (SELECT value FROM json_each(:run_ids))
