INSERT INTO assets (tenant, name, version, ref, media_type, file_name, size, preview, run_id, node, kept_by, kept_at)
SELECT :tenant, :name, coalesce(max(version), 0) + 1, :ref, :media_type, :file_name, :size, :preview, :run_id, :node, :kept_by, :kept_at
FROM assets
WHERE tenant = :tenant
  AND name = :name
RETURNING version
