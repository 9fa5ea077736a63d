-- Newest first. The last two columns are the cursor.
SELECT run_id, seq, commit_id, quarantined, state, workflow, workflow_version, ir, partition, tenant, tags,
       generation, counter, busy, runs.created_at, started_at, ended_at, error, parent, runs.created_at, run_key
FROM runs
WHERE TRUE
  AND state = :state                                          -- if state
  AND +state IN (SELECT value FROM json_each(:states))        -- if states
  AND workflow = :workflow                                    -- if workflow
  AND parent = :parent                                        -- if parent
  AND parent IS NULL                                          -- if top
  AND (busy = 0 OR EXISTS (SELECT 1 FROM runs AS child WHERE child.parent = runs.run_id AND child.ended_at IS NULL))    -- if may_wait
  AND tenant = :tenant                                        -- if tenant
  AND +tenant = :of_tenant                                    -- if of_tenant
  AND quarantined IS NOT NULL                                 -- if quarantined
  AND quarantined IS NULL                                     -- if sound
  AND created_at >= :since                                    -- if since
  AND created_at < :until                                     -- if until
  AND (created_at, run_key) < (:cursor_at, :cursor_key)       -- if cursor_at
ORDER BY created_at DESC, run_key DESC
LIMIT :limit
