SELECT run_id, seq, commit_id, quarantined, state, workflow, workflow_version, ir, partition, tenant, tags,
       generation, counter, busy, created_at, started_at, ended_at, error, parent
FROM perdure.runs
WHERE run_id = ANY (:run_ids)
