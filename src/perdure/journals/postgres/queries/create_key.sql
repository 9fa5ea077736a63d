INSERT INTO perdure.api_keys (
    key_id, tenant, name, secret_hash, roles, scopes, created_by, created_at, expires_at, revoked_at, last_used_at
)
VALUES (
    :key_id, :tenant, :name, :secret_hash, :roles, :scopes, :created_by, :created_at, :expires_at, :revoked_at, :last_used_at
)
