DELETE FROM workflows
WHERE tenant = :tenant
  AND name = :workflow
  AND version = :version  -- if version
RETURNING version
