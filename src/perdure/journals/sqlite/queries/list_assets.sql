SELECT tenant, name, version, ref, media_type, file_name, size, preview, run_id, node, kept_by, kept_at
FROM assets
WHERE tenant = :tenant
  AND deleted_at IS NULL
  AND (name, version) > (:after_name, :after_version)
  AND name <= :last_name
ORDER BY name, version
LIMIT :limit
