UPDATE perdure.runs
SET quarantined = :reason
WHERE run_id = :run_id
RETURNING TRUE
