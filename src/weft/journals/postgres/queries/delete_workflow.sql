-- The function guards and deletes: migrations/0004_archive.sql.
SELECT outcome, detail
FROM weft.delete_workflow(:tenant, :workflow, :version)
