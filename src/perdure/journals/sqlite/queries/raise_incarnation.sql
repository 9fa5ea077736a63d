UPDATE meta
SET value = value + :by
WHERE name = 'incarnation'
RETURNING value
