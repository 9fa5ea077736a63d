INSERT INTO occurrences (tenant, topic, key, id, at, body)
VALUES (:tenant, :topic, :key, :id, :at, :body)
ON CONFLICT (tenant, topic, id) DO NOTHING
RETURNING position
