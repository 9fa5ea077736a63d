SELECT notice_id, run_id, from_run_id, body
FROM perdure.notices
WHERE notice_id > :after
  AND partition = ANY (:partitions)  -- if partitions
ORDER BY notice_id
LIMIT :limit
