SELECT tenant, workflow, alias, shares, revision, moved_by, moved_at, reason
FROM alias_moves
WHERE tenant = :tenant
  AND workflow = :workflow
  AND alias = :alias
  AND revision < :before  -- if before
ORDER BY revision DESC
LIMIT :limit
