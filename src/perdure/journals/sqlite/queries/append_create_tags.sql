INSERT INTO run_tags (name, value, created_at, run_key, tenant)
SELECT key, value, :created_at, :run_key, :tenant
FROM json_each(:tags)
