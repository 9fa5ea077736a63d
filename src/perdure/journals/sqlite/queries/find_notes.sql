SELECT tenant, workflow, version, noted_by, noted_at, reason
FROM version_notes
WHERE tenant = :tenant
  AND workflow = :workflow
  AND version IN (SELECT value FROM json_each(:versions))
