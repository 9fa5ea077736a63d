SELECT run_key, seq, commit_id, state, busy, ir, generation, started_at, ended_at, error
FROM runs
WHERE run_id = ?
