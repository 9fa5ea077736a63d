SELECT version
FROM workflows
WHERE tenant = :tenant
  AND name = :workflow
  AND version = :version                                     -- if version
  AND version IN (SELECT value FROM json_each(:versions))    -- if versions
