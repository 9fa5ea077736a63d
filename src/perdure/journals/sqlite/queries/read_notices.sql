SELECT notice_id, run_id, from_run_id, body
FROM notices
WHERE notice_id > :after
  AND partition IN (SELECT value FROM json_each(:partitions))  -- if partitions
ORDER BY notice_id
LIMIT :limit
