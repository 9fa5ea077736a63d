SELECT version
FROM workflows
WHERE tenant = :tenant AND name = :name AND definition_hash = :definition_hash
