SELECT hash, kind, body
FROM definitions
WHERE hash = :definition_hash
