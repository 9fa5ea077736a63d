-- Newest first.
SELECT run_id, seq, commit_id, quarantined, state, workflow, workflow_version, ir, partition, tenant, tags,
       generation, counter, busy, created_at, started_at, ended_at, error, parent
FROM perdure.runs
WHERE TRUE
  AND state = :state                                      -- if state
  AND state = ANY (:states)                               -- if states
  AND workflow = :workflow                                -- if workflow
  AND parent = :parent                                    -- if parent
  AND parent IS NULL                                      -- if top
  AND (NOT busy OR EXISTS (SELECT 1 FROM perdure.runs AS child WHERE child.parent = runs.run_id AND child.ended_at IS NULL))    -- if may_wait
  AND tenant = :tenant                                    -- if tenant
  AND tenant = :of_tenant                                 -- if of_tenant
  AND quarantined IS NOT NULL                             -- if quarantined
  AND quarantined IS NULL                                 -- if sound
  AND created_at >= :since                                -- if since
  AND created_at < :until                                 -- if until
  AND (created_at, run_id) < (:cursor_at, :cursor_key)    -- if cursor_at
ORDER BY created_at DESC, run_id DESC
LIMIT :limit
