-- The function chooses and deletes: migrations/0004_archive.sql.
SELECT perdure.prune_runs(:before, :most_runs, :most_rows)
