SELECT tenant, topic, key, max(position), max(at)
FROM (
    SELECT position, tenant, topic, key, at
    FROM perdure.occurrences
    WHERE position > :after
    ORDER BY position
    LIMIT :limit
) AS counted
GROUP BY tenant, topic, key
