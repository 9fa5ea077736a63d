-- Only the first to notice raises the incarnation.
UPDATE perdure.meta
SET identity = :identity, incarnation = greatest(incarnation, :known) + 1
WHERE identity = :seen
