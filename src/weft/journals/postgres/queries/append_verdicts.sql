-- What there is to know about commits that were not accepted: why, or that by now they might be.
SELECT c.number, r.seq, r.commit_id, e.commit_id, coalesce(p.epoch, 0), m.incarnation, k.run_id, k.body_hash
FROM unnest(:numbers::integer[], :run_ids::text[], :seqs::bigint[], :partitions::integer[], :tenants::text[], :keys::bytea[])
    AS c (number, run_id, seq, partition, tenant, key)
CROSS JOIN weft.meta m
LEFT JOIN weft.runs r ON r.run_id = c.run_id
LEFT JOIN weft.events e ON e.run_id = c.run_id AND e.seq = c.seq
LEFT JOIN weft.partitions p ON p.partition = c.partition
LEFT JOIN weft.idempotency k ON k.tenant = c.tenant AND k.key = c.key
