-- As list_runs, led by the tag, whose index is in the same order.
SELECT run_id, seq, commit_id, quarantined, state, workflow, workflow_version, ir, partition, runs.tenant, tags,
       generation, counter, busy, run_tags.created_at, started_at, ended_at, error, parent, run_tags.created_at, runs.run_key
FROM run_tags CROSS JOIN runs ON runs.run_key = run_tags.run_key
WHERE name = :tag_name
  AND value = :tag_value
  AND state = :state                                                            -- if state
  AND state IN (SELECT value FROM json_each(:states))                           -- if states
  AND workflow = :workflow                                                      -- if workflow
  AND parent = :parent                                                          -- if parent
  AND parent IS NULL                                                            -- if top
  AND workflow <> :plain                                                        -- if plain
  AND (busy = 0 OR EXISTS (SELECT 1 FROM runs AS child WHERE child.parent = runs.run_id AND child.ended_at IS NULL))    -- if may_wait
  AND run_tags.tenant = :tenant                                                 -- if tenant
  AND quarantined IS NOT NULL                                                   -- if quarantined
  AND quarantined IS NULL                                                       -- if sound
  AND run_tags.created_at >= :since                                             -- if since
  AND run_tags.created_at < :until                                              -- if until
  AND workflow_version = :version                             -- if version
  AND error IS NOT NULL AND substr(error, 1, length(:error)) = :error    -- if error
  AND runs.run_id IN (                                        -- if id_from
      SELECT r.run_id FROM runs r                        -- if id_from
      WHERE r.run_id >= :id_from AND r.run_id < :id_to        -- if id_from
        AND r.tenant = :id_tenant                             -- if id_tenant
      ORDER BY r.run_id DESC LIMIT 1000)                      -- if id_from
  AND (run_tags.created_at, run_tags.run_key) < (:cursor_at, :cursor_key)       -- if cursor_at
  AND (run_tags.created_at, run_tags.run_key) > (:after_at, :after_key)         -- if after_at
ORDER BY run_tags.created_at DESC, run_tags.run_key DESC    -- unless oldest
ORDER BY run_tags.created_at, run_tags.run_key    -- if oldest
LIMIT :limit
