SELECT count(*)
FROM perdure.runs
WHERE tenant = :tenant
  AND workflow = :workflow
  AND workflow_version = :version  -- if version
  AND ended_at IS NULL
