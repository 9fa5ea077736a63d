INSERT INTO run_tags (name, value, created_at, run_key)
SELECT key, value, :created_at, :run_key
FROM json_each(:tags)
