SELECT tenant, name, version, ref, media_type, file_name, size, preview, run_id, node, kept_by, kept_at
FROM perdure.assets
WHERE deleted_at IS NULL
  AND (tenant, name, version) > (:after_tenant, :after_name, :after_version::bigint)
ORDER BY tenant, name, version
LIMIT :limit
