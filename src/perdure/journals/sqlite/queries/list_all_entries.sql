SELECT tenant, space, name, place, owner, run_id, at, body
FROM agent_entries
WHERE (tenant, space, name, place) > (:after_tenant, :after_space, :after_name, :after_place)
ORDER BY tenant, space, name, place
LIMIT :limit
