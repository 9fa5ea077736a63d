-- To one caller alone: what is taken is due for others only later.
UPDATE perdure.notifications
SET attempts = attempts + 1, next_at = :until
WHERE approval_id IN (
    SELECT approval_id FROM perdure.notifications WHERE state = 'waiting' AND next_at <= :now ORDER BY next_at LIMIT :limit FOR UPDATE SKIP LOCKED
)
RETURNING approval_id, tenant, state, attempts, created_at, next_at, delivered_at, last_error
