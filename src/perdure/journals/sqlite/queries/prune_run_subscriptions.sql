DELETE FROM subscriptions
WHERE run_id = ?
