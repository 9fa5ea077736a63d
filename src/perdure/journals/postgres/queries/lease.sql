SELECT share, partition_number, epoch_number
FROM perdure.lease(:holder, :lease_seconds)
