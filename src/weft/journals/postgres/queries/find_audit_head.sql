SELECT seq, hash
FROM weft.audit_heads
WHERE tenant = :tenant
