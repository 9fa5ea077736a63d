SELECT tenant, topic, key, run_id, place, since, since_at
FROM subscriptions
WHERE run_id = :run_id
ORDER BY place
