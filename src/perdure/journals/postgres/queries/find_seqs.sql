SELECT run_id, seq
FROM perdure.runs
WHERE run_id = ANY (:run_ids)
