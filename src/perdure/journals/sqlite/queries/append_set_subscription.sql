INSERT INTO subscriptions (tenant, topic, key, run_id, place, since, since_at, partition)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (place) DO UPDATE
SET
    tenant = excluded.tenant, topic = excluded.topic, key = excluded.key, run_id = excluded.run_id,
    since = excluded.since, since_at = excluded.since_at, partition = excluded.partition
