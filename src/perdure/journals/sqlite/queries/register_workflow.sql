INSERT INTO workflows (tenant, name, version, definition_hash, ir_hash, registered_at)
SELECT :tenant, :name,
       max(
           coalesce(max(version), 0),
           coalesce((SELECT last_version FROM deleted_workflows WHERE tenant = :tenant AND name = :name), 0)
       ) + 1,
       :definition_hash, :ir_hash, :registered_at
FROM workflows
WHERE tenant = :tenant AND name = :name
ON CONFLICT (tenant, name, definition_hash) DO NOTHING
