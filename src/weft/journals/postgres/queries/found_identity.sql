UPDATE weft.meta
SET identity = :identity
WHERE identity IS NULL
