DELETE FROM budgets
WHERE tenant = :tenant
  AND scope = :scope
RETURNING tenant
