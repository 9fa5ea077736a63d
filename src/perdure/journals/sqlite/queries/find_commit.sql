SELECT seq, commit_id
FROM runs
WHERE run_id = :run_id
