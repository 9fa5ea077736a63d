SELECT position, tenant, topic, key, id, at, body
FROM perdure.occurrences
WHERE tenant = :tenant
  AND topic = :topic
  AND key = :key  -- if key
  AND position > :after
  AND at >= :since  -- if since
ORDER BY position
LIMIT :limit
