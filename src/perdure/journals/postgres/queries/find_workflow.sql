SELECT name, version, definition_hash, ir_hash, tenant, registered_at
FROM perdure.workflows
WHERE tenant = :tenant
  AND name = :name
  AND version = :version  -- if version
ORDER BY version DESC
LIMIT 1
