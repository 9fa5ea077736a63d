INSERT INTO perdure.agent_entries (tenant, space, name, place, owner, run_id, at, body)
VALUES (:tenant, :space, :name, :place, :owner, :run_id, :at, :body)
ON CONFLICT (tenant, space, name, place) DO UPDATE
SET owner = excluded.owner, run_id = excluded.run_id, at = excluded.at, body = excluded.body
