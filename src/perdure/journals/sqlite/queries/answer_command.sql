-- The first answer stands.
UPDATE commands
SET answer = ?, answered_at = ?
WHERE command_id = ? AND answered_at IS NULL
