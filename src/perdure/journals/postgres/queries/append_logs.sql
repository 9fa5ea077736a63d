-- The function numbers: migrations/0004_archive.sql.
SELECT perdure.append_logs(:run_ids, :tenants, :nodes, :visits, :attempts, :times, :levels, :messages, :kept_lines)
