-- The function keeps the order of positions: migrations/0002_append.sql.
SELECT perdure.put_command(put.command_id, put.run_id, put.partition, put.put_at, put.body)
FROM unnest(:command_ids::text[], :run_ids::text[], :partitions::integer[], :put_ats::double precision[], :bodies::bytea[])
    AS put (command_id, run_id, partition, put_at, body)
