-- Nothing comes back when the definition is registered, or another was given the same number at the same time.
INSERT INTO perdure.workflows (tenant, name, version, definition_hash, ir_hash, registered_at)
SELECT :tenant::text, :name::text,
       greatest(
           max(version), 0,
           (SELECT last_version FROM perdure.deleted_workflows WHERE tenant = :tenant::text AND name = :name::text)
       ) + 1,
       :definition_hash::text, :ir_hash::text, :registered_at::float8
FROM perdure.workflows
WHERE tenant = :tenant::text AND name = :name::text
ON CONFLICT DO NOTHING
RETURNING version
