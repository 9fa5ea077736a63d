UPDATE notifications
SET state = :state, next_at = :next_at, delivered_at = :delivered_at, last_error = :last_error
WHERE approval_id = :approval_id AND attempts = :attempts AND state = 'waiting'
RETURNING TRUE
