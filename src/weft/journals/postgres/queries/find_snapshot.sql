SELECT seq, version, body
FROM weft.snapshots
WHERE run_id = :run_id
