-- The function guards and deletes: migrations/0004_archive.sql.
SELECT outcome, detail
FROM perdure.delete_workflow(:tenant, :workflow, :version)
