SELECT seq, hash
FROM perdure.audit_heads
WHERE tenant = :tenant
