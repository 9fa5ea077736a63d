SELECT snapshots.seq, version, body
FROM runs JOIN snapshots USING (run_key)
WHERE run_id = :run_id
