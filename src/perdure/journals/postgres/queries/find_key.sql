SELECT key_id, tenant, name, secret_hash, roles, scopes, created_by, created_at, expires_at, revoked_at, last_used_at
FROM perdure.api_keys
WHERE key_id = :key_id
