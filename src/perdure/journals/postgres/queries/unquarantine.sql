UPDATE perdure.runs
SET quarantined = NULL
WHERE run_id = :run_id
RETURNING TRUE
