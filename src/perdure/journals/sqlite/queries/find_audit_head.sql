SELECT seq, hash
FROM audit_heads
WHERE tenant = :tenant
