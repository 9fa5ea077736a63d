DELETE FROM perdure.occurrences
WHERE position IN (
    SELECT position
    FROM perdure.occurrences AS old
    WHERE old.tenant = :tenant
      AND NOT EXISTS (
          SELECT 1
          FROM perdure.subscriptions AS s
          WHERE s.tenant = old.tenant
            AND s.topic = old.topic
            AND s.since_at IS NULL
            AND s.since < old.position
      )
    ORDER BY old.position
    LIMIT :most
)
RETURNING TRUE
