UPDATE meta
SET value = value + 1
WHERE name = 'incarnation'
RETURNING value
