DELETE FROM agent_entries
WHERE (tenant, space, name, place) IN (
    SELECT tenant, space, name, place FROM agent_entries WHERE space = :space AND at < :before ORDER BY at LIMIT 1000
)
RETURNING TRUE
