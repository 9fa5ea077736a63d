UPDATE perdure.api_keys k
SET last_used_at = u.used_at
FROM unnest(:key_ids::text[], :times::float8[]) AS u (key_id, used_at)
WHERE k.key_id = u.key_id
  AND (k.last_used_at IS NULL OR k.last_used_at < u.used_at)
