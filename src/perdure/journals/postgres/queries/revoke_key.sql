UPDATE perdure.api_keys
SET revoked_at = coalesce(revoked_at, :revoked_at)
WHERE key_id = :key_id
  AND tenant = :tenant
RETURNING key_id, tenant, name, secret_hash, roles, scopes, created_by, created_at, expires_at, revoked_at, last_used_at
