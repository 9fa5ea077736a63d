SELECT key_id, tenant, name, secret_hash, roles, scopes, created_by, created_at, expires_at, revoked_at, last_used_at
FROM perdure.api_keys
WHERE tenant = :tenant
  AND (created_at, key_id) < (:cursor_at, :cursor_key)  -- if cursor_at
ORDER BY created_at DESC, key_id DESC
LIMIT :limit
