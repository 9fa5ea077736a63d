-- In order, as leases do: two that raise the same ones must not wait for each other.
WITH chosen AS (
    SELECT partition
    FROM perdure.partitions
    WHERE partition = ANY (:partitions)
    ORDER BY partition
    FOR UPDATE
)
UPDATE perdure.partitions p
SET epoch = p.epoch + 1
FROM chosen
WHERE p.partition = chosen.partition
RETURNING p.partition, p.epoch
