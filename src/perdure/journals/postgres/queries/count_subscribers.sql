SELECT count(*)
FROM (
    SELECT place
    FROM perdure.subscriptions
    WHERE tenant = :tenant
      AND topic = :topic
      AND key IN ('', :key)  -- if key
    LIMIT :most
) AS found
