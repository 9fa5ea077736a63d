DELETE FROM logs
WHERE run_id = :run_id AND position <= :position
