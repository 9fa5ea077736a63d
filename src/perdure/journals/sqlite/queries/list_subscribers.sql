SELECT tenant, topic, key, run_id, place, since, since_at
FROM subscriptions
WHERE tenant = :tenant
  AND topic = :topic
  AND key = :key
  AND place > :after
  AND since < :position
  AND (since_at IS NULL OR since_at <= :at)
  AND partition IN (SELECT value FROM json_each(:partitions))  -- if partitions
ORDER BY place
LIMIT :limit
