SELECT name, count(*), min(at), max(at), min(owner), max(owner)
FROM perdure.agent_entries
WHERE tenant = :tenant
  AND space = :space
  AND name > :after
GROUP BY name
ORDER BY name
LIMIT :limit
