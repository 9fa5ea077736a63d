SELECT tenant, space, name, place, owner, run_id, at, body
FROM perdure.agent_entries
WHERE tenant = :tenant
  AND space = :space
  AND name = :name
  AND place < :before
ORDER BY place DESC
LIMIT :limit
