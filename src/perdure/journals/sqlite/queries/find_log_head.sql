SELECT coalesce(position, 0)
FROM runs LEFT JOIN log_heads ON log_heads.run_id = runs.run_id
WHERE runs.run_id = :run_id AND tenant = :tenant
