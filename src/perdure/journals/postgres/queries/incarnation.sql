SELECT incarnation, pg_current_wal_flush_lsn()
FROM perdure.meta
