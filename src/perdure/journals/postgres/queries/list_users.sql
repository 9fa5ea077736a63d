SELECT run_id, seq, commit_id, quarantined, state, workflow, workflow_version, ir, partition, tenant, tags,
       generation, counter, busy, created_at, started_at, ended_at, error, parent
FROM perdure.runs
WHERE tenant = :tenant
  AND workflow = :workflow
  AND workflow_version = :version                                    -- if version
  AND run_id > :after                                                -- if after
  AND (workflow_version, run_id) > (:cursor_version, :cursor_run)    -- if cursor_run
  AND ended_at IS NULL
ORDER BY workflow_version, run_id
LIMIT :limit
