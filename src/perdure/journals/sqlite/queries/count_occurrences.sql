SELECT count(*)
FROM (
    SELECT position
    FROM occurrences
    WHERE tenant = :tenant
    LIMIT :most
) AS found
