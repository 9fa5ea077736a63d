SELECT run_id, seq
FROM weft.runs
WHERE run_id = ANY (:run_ids)
