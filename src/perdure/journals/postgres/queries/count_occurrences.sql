SELECT count(*)
FROM (
    SELECT position
    FROM perdure.occurrences
    WHERE tenant = :tenant
    LIMIT :most
) AS found
