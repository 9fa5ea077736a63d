UPDATE runs
SET quarantined = NULL
WHERE run_id = :run_id
