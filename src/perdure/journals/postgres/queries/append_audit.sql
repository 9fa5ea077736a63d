-- The function chains: migrations/0004_archive.sql.
SELECT perdure.append_audit(:tenants, :times, :principals, :actions, :objects, :details, :request_ids, :payloads)
