SELECT run_key, seq, commit_id, started_at, state, busy, ir, generation, ended_at, error
FROM runs
WHERE run_id = ?
