SELECT run_id, seq, version, body
FROM perdure.snapshots
WHERE run_id = ANY (:run_ids)
