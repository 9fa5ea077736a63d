INSERT INTO audit (tenant, seq, at, principal, action, object, detail, request_id, previous_hash, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
