INSERT INTO dead_letters (dead_letter_id, run_id, node, state, tenant, created_at, resolved_at, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (dead_letter_id) DO UPDATE
SET state = excluded.state, resolved_at = excluded.resolved_at, body = excluded.body
WHERE dead_letters.run_id = excluded.run_id
