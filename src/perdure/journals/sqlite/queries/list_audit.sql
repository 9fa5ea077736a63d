-- Newest first. Each filter has its index; of several, one leads and the others are looked at on the way.
SELECT seq, previous_hash, hash, tenant, at, principal, action, object, detail, request_id
FROM audit
WHERE tenant = :tenant
  AND principal = :principal                        -- if principal
  AND action = :action                              -- if action
  AND object = :object                              -- if object
  AND at >= :since                                  -- if since
  AND at < :until                                   -- if until
  AND (at, seq) < (:cursor_at, :cursor_seq)         -- if cursor_at
ORDER BY at DESC, seq DESC
LIMIT :limit
