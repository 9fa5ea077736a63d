-- Asked of every new connection: is this the database it was? See witness.py.
SELECT m.schema_version, m.partitions, m.incarnation, m.identity,
       concat_ws(
           '/',
           (pg_control_system()).system_identifier,
           left(pg_walfile_name(pg_current_wal_lsn()), 8),
           (SELECT oid FROM pg_database WHERE datname = current_database()),
           'perdure.meta'::regclass::oid
       ) AS found_identity,
       pg_current_wal_flush_lsn() AS lsn,
       (SELECT seq FROM perdure.runs WHERE run_id = :run_id) AS seq,
       current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit
FROM perdure.meta m
