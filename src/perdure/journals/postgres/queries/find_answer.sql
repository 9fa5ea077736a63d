SELECT command_id, answer
FROM perdure.commands
WHERE command_id = ANY (:command_ids) AND answered_at IS NOT NULL
