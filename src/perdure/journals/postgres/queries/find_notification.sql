SELECT approval_id, tenant, state, attempts, created_at, next_at, delivered_at, last_error
FROM perdure.notifications
WHERE approval_id = :approval_id AND tenant = :tenant
