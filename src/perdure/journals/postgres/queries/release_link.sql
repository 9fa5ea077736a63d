UPDATE perdure.links
SET consumed_at = NULL
WHERE token_hash = :token_hash
  AND consumed_at = :consumed_at
