SELECT hash, kind, body
FROM perdure.definitions
WHERE hash = :definition_hash
