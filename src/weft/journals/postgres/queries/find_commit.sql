SELECT seq, commit_id
FROM weft.runs
WHERE run_id = :run_id
