SELECT callback_hash, tenant, digest, received_at
FROM callbacks
WHERE callback_hash = :callback_hash
