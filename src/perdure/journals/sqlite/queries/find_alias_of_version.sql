SELECT a.alias
FROM aliases a CROSS JOIN alias_moves m
  ON m.tenant = a.tenant AND m.workflow = a.workflow AND m.alias = a.alias AND m.revision = a.revision
WHERE a.tenant = :tenant
  AND a.workflow = :workflow
  AND a.present
  AND EXISTS (SELECT 1 FROM json_each(m.shares) WHERE json_extract(value, '$[0]') = :version)
ORDER BY a.alias
LIMIT 1
