-- What there is to know about commits that were not accepted: why, or that by now they might be.
SELECT c.number, r.seq, r.commit_id, e.commit_id, coalesce(p.epoch, 0), m.incarnation, k.run_id, k.body_hash
FROM unnest(:numbers::integer[], :run_ids::text[], :seqs::bigint[], :partitions::integer[], :tenants::text[], :keys::bytea[])
    AS c (number, run_id, seq, partition, tenant, key)
CROSS JOIN perdure.meta m
LEFT JOIN perdure.runs r ON r.run_id = c.run_id
LEFT JOIN perdure.events e ON e.run_id = c.run_id AND e.seq = c.seq
LEFT JOIN perdure.partitions p ON p.partition = c.partition
LEFT JOIN perdure.idempotency k ON k.tenant = c.tenant AND k.key = c.key
