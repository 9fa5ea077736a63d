SELECT epoch
FROM partitions
WHERE partition = ?
