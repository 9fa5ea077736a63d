-- The function chooses and deletes: migrations/0006_keys.sql.
SELECT perdure.prune_runs(:before, :most_runs, :most_rows)
