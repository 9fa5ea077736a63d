-- Of the newest runs that match, at most :limit: how many there are by group and by stretch of time.
SELECT
       NULL,                 -- unless group
       state,                -- if by_state
       workflow,             -- if by_workflow
       CASE WHEN position('\x22'::bytea IN substr(error, 10)) > 0 THEN substr(error, 10, position('\x22'::bytea IN substr(error, 10)) - 1) END,    -- if by_error
       NULL::bigint,         -- unless bucket
       floor(moment / :bucket)::bigint,    -- if bucket
       count(*)
FROM (
    SELECT state, workflow, error,
           created_at AS moment    -- unless by_end
           ended_at AS moment      -- if by_end
    FROM perdure.runs
    WHERE TRUE
      AND tenant = :tenant                                      -- if tenant
      AND tenant = :of_tenant                             -- if of_tenant
      AND ended_at IS NOT NULL                                  -- if by_end
      AND ended_at >= :ended_since                              -- if ended_since
      AND ended_at < :ended_until                               -- if ended_until
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
    ORDER BY created_at DESC    -- unless by_end
    ORDER BY ended_at DESC      -- if by_end
    LIMIT :limit
) AS counted
GROUP BY 1, 2
ORDER BY count(*) DESC
LIMIT 20000
