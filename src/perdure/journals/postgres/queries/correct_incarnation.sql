-- Only the first to notice raises it.
UPDATE perdure.meta
SET incarnation = :known + 1
WHERE incarnation <= :known
