UPDATE perdure.assets
SET deleted_at = :now
WHERE tenant = :tenant
  AND name = :name
  AND version = :version
  AND deleted_at IS NULL
RETURNING tenant, name, version, ref, media_type, file_name, size, preview, run_id, node, kept_by, kept_at
