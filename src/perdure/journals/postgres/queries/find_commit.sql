SELECT seq, commit_id
FROM perdure.runs
WHERE run_id = :run_id
