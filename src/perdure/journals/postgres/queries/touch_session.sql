UPDATE perdure.sessions
SET seen_at = :seen_at
WHERE token_hash = :token_hash
  AND seen_at < :seen_at
