UPDATE aliases
SET present = FALSE
WHERE tenant = :tenant
  AND workflow = :workflow
  AND alias = :alias
  AND present
RETURNING TRUE
