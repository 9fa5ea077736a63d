-- The function chooses and deletes: migrations/0011_occurrences.sql.
SELECT perdure.prune_runs(:before, :most_runs, :most_rows)
