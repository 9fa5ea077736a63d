INSERT INTO occurrences (tenant, topic, key, id, at, body)
SELECT ?, ?, ?, ?, ?, ?
WHERE EXISTS (SELECT 1 FROM subscriptions WHERE tenant = ? AND topic = ?)
ON CONFLICT (tenant, topic, id) DO NOTHING
