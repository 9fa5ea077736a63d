SELECT tenant, name, version, ref, media_type, file_name, size, preview, run_id, node, kept_by, kept_at
FROM assets
WHERE tenant = :tenant
  AND name = :name
  AND version = coalesce(:version, (
      SELECT max(version) FROM assets WHERE tenant = :tenant AND name = :name AND deleted_at IS NULL
  ))
  AND deleted_at IS NULL
