SELECT token_hash, session_id, tenant, owner, kind, name, key_id, roles, agent, created_at, seen_at, expires_at
FROM perdure.sessions
WHERE token_hash = :token_hash
