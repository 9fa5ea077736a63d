SELECT position, tenant, run_id, node, visit, attempt, at, level, message
FROM perdure.logs
WHERE run_id = :run_id
  AND node = :node  -- if node
  AND position > :after
  AND tenant = :tenant
ORDER BY position
LIMIT :limit
