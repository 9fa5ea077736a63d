SELECT tenant, topic, key, run_id, place, since, since_at
FROM perdure.subscriptions
WHERE tenant = :tenant
  AND topic = :topic
  AND key = :key
  AND place > :after
  AND since < :position
  AND (since_at IS NULL OR since_at <= :at)
  AND partition = ANY (:partitions)  -- if partitions
ORDER BY place
LIMIT :limit
