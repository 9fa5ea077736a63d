INSERT INTO audit_heads (tenant, seq, hash)
VALUES (?, ?, ?)
ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
