SELECT seq, previous_hash, hash, tenant, at, principal, action, object, detail, request_id
FROM perdure.audit
WHERE tenant = :tenant
  AND seq > :after
ORDER BY seq
LIMIT :limit
