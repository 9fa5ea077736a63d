DELETE FROM perdure.budgets
WHERE tenant = :tenant
  AND scope = :scope
RETURNING tenant
