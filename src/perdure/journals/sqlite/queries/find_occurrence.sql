SELECT position
FROM occurrences
WHERE tenant = :tenant AND topic = :topic AND id = :id
