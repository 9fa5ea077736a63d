-- The first answer stands.
UPDATE perdure.commands
SET answer = :answer, answered_at = :answered_at
WHERE command_id = :command_id AND answered_at IS NULL
RETURNING TRUE
