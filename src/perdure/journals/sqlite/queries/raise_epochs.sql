UPDATE partitions
SET epoch = epoch + 1
WHERE partition IN (SELECT value FROM json_each(:partitions))
RETURNING partition, epoch
