INSERT INTO saved_views (tenant, owner, name, query, saved_by, saved_at)
VALUES (:tenant, :owner, :name, :query, :saved_by, :saved_at)
ON CONFLICT (tenant, owner, name) DO UPDATE
SET query = excluded.query, saved_by = excluded.saved_by, saved_at = excluded.saved_at
