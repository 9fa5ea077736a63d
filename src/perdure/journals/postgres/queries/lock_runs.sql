-- Ordered, as every append locks: two of them never wait for each other.
SELECT run_id
FROM perdure.runs
WHERE run_id = ANY (:run_ids)
ORDER BY run_id
FOR UPDATE
