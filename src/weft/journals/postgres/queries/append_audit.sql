-- The function chains: migrations/0004_archive.sql.
SELECT weft.append_audit(:tenants, :times, :principals, :actions, :objects, :details, :request_ids, :payloads)
