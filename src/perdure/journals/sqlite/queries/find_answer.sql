SELECT answer
FROM commands
WHERE command_id = :command_id AND answered_at IS NOT NULL
