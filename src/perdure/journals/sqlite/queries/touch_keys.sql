UPDATE api_keys
SET last_used_at = :used_at
WHERE key_id = :key_id
  AND (last_used_at IS NULL OR last_used_at < :used_at)
