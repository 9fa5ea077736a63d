SELECT seq, type, at, body
FROM events
WHERE run_key = (SELECT run_key FROM runs WHERE run_id = :run_id)
  AND seq > :after
ORDER BY seq
LIMIT :limit
