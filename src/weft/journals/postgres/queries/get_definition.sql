SELECT hash, kind, body
FROM weft.definitions
WHERE hash = :definition_hash
