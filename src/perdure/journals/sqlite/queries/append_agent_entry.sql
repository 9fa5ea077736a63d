INSERT INTO agent_entries (tenant, space, name, place, owner, run_id, at, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, space, name, place) DO NOTHING
