DELETE FROM perdure.agent_entries
WHERE tenant = :tenant AND space = :space AND name = :name
RETURNING TRUE
