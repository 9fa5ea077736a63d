SELECT count(*)
FROM runs INDEXED BY runs_unended
WHERE tenant = :tenant
  AND workflow = :workflow
  AND workflow_version = :version  -- if version
  AND ended_at IS NULL
