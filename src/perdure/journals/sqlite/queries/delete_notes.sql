DELETE FROM version_notes
WHERE tenant = :tenant
  AND workflow = :workflow
  AND version = :version  -- if version
