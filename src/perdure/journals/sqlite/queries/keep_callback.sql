INSERT INTO callbacks (callback_hash, tenant, digest, received_at)
VALUES (:callback_hash, :tenant, :digest, :received_at)
ON CONFLICT (callback_hash) DO NOTHING
RETURNING TRUE
