SELECT coalesce(sum(size), 0)
FROM assets
WHERE tenant = :tenant
  AND deleted_at IS NULL
