DELETE FROM sessions
WHERE session_id = :session_id
  AND tenant = :tenant
  AND owner = :owner
RETURNING token_hash, session_id, tenant, owner, kind, name, key_id, roles, agent, created_at, seen_at, expires_at
