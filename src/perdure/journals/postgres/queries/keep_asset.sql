INSERT INTO perdure.assets (tenant, name, version, ref, media_type, file_name, size, preview, run_id, node, kept_by, kept_at)
SELECT :tenant::text, :name::text, coalesce(max(version), 0) + 1, :ref::text, :media_type::text, :file_name::text, :size::bigint, :preview::text,
    :run_id::text, :node::text, :kept_by::text, :kept_at::double precision
FROM perdure.assets
WHERE tenant = :tenant
  AND name = :name
ON CONFLICT DO NOTHING
RETURNING version
