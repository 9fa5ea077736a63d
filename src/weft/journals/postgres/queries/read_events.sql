SELECT seq, type, at, body
FROM weft.events
WHERE run_id = :run_id
  AND seq > :after
ORDER BY seq
LIMIT :limit
