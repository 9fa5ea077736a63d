SELECT a.tenant, a.workflow, a.alias, m.shares, m.revision, m.moved_by, m.moved_at, m.reason
FROM aliases a CROSS JOIN alias_moves m
  ON m.tenant = a.tenant AND m.workflow = a.workflow AND m.alias = a.alias AND m.revision = a.revision
WHERE a.tenant = :tenant
  AND a.workflow = :workflow
  AND a.alias = :alias
  AND a.present
