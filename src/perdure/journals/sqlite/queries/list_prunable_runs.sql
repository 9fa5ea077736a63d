SELECT run_id, seq + coalesce((SELECT position FROM log_heads h WHERE h.run_id = r.run_id), 0)
FROM runs r
WHERE ended_at < :before
  AND quarantined IS NULL
  AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.run_id = r.parent)
  AND NOT EXISTS (SELECT 1 FROM runs c WHERE c.parent = r.run_id AND c.ended_at IS NULL)
ORDER BY ended_at
LIMIT :limit
