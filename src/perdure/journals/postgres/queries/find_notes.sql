SELECT tenant, workflow, version, noted_by, noted_at, reason
FROM perdure.version_notes
WHERE tenant = :tenant
  AND workflow = :workflow
  AND version = ANY (:versions)
