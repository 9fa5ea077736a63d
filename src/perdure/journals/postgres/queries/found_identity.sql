UPDATE perdure.meta
SET identity = :identity
WHERE identity IS NULL
