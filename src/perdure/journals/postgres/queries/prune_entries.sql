DELETE FROM perdure.agent_entries
WHERE (tenant, space, name, place) IN (
    SELECT tenant, space, name, place FROM perdure.agent_entries WHERE space = :space AND at < :before ORDER BY at LIMIT 1000 FOR UPDATE SKIP LOCKED
)
RETURNING TRUE
