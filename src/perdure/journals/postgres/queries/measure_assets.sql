SELECT coalesce(sum(size), 0)
FROM perdure.assets
WHERE tenant = :tenant
  AND deleted_at IS NULL
