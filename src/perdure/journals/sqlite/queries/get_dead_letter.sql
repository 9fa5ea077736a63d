SELECT dead_letter_id, run_id, node, state, tenant, created_at, resolved_at, body
FROM dead_letters
WHERE dead_letter_id = :id
