SELECT share, partition_number, epoch_number
FROM weft.lease(:holder, :lease_seconds)
