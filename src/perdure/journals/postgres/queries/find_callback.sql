SELECT callback_hash, tenant, digest, received_at
FROM perdure.callbacks
WHERE callback_hash = :callback_hash
