SELECT DISTINCT ON (name) name, version, definition_hash, ir_hash, tenant, registered_at
FROM perdure.workflows
WHERE tenant = :tenant
  AND name > :after  -- if after
ORDER BY name, version DESC
LIMIT :limit
