SELECT answer
FROM weft.commands
WHERE command_id = :command_id AND answered_at IS NOT NULL
