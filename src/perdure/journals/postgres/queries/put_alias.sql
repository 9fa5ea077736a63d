-- The function compares and moves: migrations/0004_archive.sql.
SELECT outcome, number
FROM perdure.put_alias(
    :tenant, :workflow, :alias, :versions, :shares, :moved_by, :moved_at, :reason, :expected
)
