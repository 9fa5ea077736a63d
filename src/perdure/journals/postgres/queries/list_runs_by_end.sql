-- As list_runs, by the time of the end; runs that have not ended are not among them.
SELECT run_id, seq, commit_id, quarantined, state, workflow, workflow_version, ir, partition, tenant, tags,
       generation, counter, busy, created_at, started_at, ended_at, error, parent
FROM perdure.runs
WHERE ended_at IS NOT NULL
  AND tenant = :tenant                                        -- if tenant
  AND tenant = :of_tenant                                     -- if of_tenant
  AND ended_at >= :ended_since                                -- if ended_since
  AND ended_at < :ended_until                                 -- if ended_until
  AND state = :state                                    -- if state
  AND state = ANY (:states)                                   -- if states
  AND workflow = :workflow                              -- if workflow
  AND EXISTS (SELECT 1 FROM perdure.run_tags t WHERE t.run_id = runs.run_id AND t.name = :tag_name AND t.value = :tag_value)    -- if tag_name
  AND parent = :parent                                  -- if parent
  AND parent IS NULL                                          -- if top
  AND workflow <> :plain                                      -- if plain
  AND (NOT busy OR EXISTS (SELECT 1 FROM perdure.runs AS child WHERE child.parent = runs.run_id AND child.ended_at IS NULL))    -- if may_wait
  AND quarantined IS NOT NULL                                 -- if quarantined
  AND quarantined IS NULL                                     -- if sound
  AND created_at >= :since                              -- if since
  AND created_at < :until                               -- if until
  AND workflow_version = :version                             -- if version
  AND error IS NOT NULL AND substr(error, 1, octet_length(:error::bytea)) = :error::bytea    -- if error
  AND runs.run_id IN (                                        -- if id_from
      SELECT r.run_id FROM perdure.runs r                        -- if id_from
      WHERE r.run_id >= :id_from AND r.run_id < :id_to        -- if id_from
        AND r.tenant = :id_tenant                             -- if id_tenant
      ORDER BY r.run_id DESC LIMIT 1000)                      -- if id_from
  AND (ended_at, run_id) < (:cursor_at, :cursor_key)       -- if cursor_at
  AND (ended_at, run_id) > (:after_at, :after_key)         -- if after_at
ORDER BY ended_at DESC, run_id DESC    -- unless oldest
ORDER BY ended_at, run_id    -- if oldest
LIMIT :limit
