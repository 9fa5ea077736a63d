DELETE FROM perdure.saved_views
WHERE tenant = :tenant
  AND owner = :owner
  AND name = :name
RETURNING tenant, owner, name, query, saved_by, saved_at
