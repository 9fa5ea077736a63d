SELECT run_id, seq, version, body
FROM weft.snapshots
WHERE run_id = ANY (:run_ids)
