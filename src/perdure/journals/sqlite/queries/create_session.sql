INSERT INTO sessions (
    token_hash, session_id, tenant, owner, kind, name, key_id, roles, agent, created_at, seen_at, expires_at
)
VALUES (
    :token_hash, :session_id, :tenant, :owner, :kind, :name, :key_id, :roles, :agent, :created_at, :seen_at, :expires_at
)
