-- Only the first to notice raises it.
UPDATE weft.meta
SET incarnation = :known + 1
WHERE incarnation <= :known
