INSERT INTO logs (run_id, position, tenant, node, visit, attempt, at, level, message)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
