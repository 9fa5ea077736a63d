SELECT token_hash, session_id, tenant, owner, kind, name, key_id, roles, agent, created_at, seen_at, expires_at
FROM sessions
WHERE tenant = :tenant
  AND owner = :owner
  AND expires_at > :now
  AND seen_at > :seen_after
  AND (created_at, session_id) < (:cursor_at, :cursor_session)  -- if cursor_at
ORDER BY created_at DESC, session_id DESC
LIMIT :limit
