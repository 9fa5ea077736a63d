SELECT callback_hash, tenant, digest, received_at
FROM weft.callbacks
WHERE callback_hash = :callback_hash
