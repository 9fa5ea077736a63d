SELECT name, max(version), definition_hash, ir_hash, tenant, registered_at
FROM workflows
WHERE tenant = :tenant
  AND name > :after  -- if after
GROUP BY name
ORDER BY name
LIMIT :limit
