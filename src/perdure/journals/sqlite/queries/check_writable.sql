INSERT INTO meta (name, value)
VALUES ('checked', 1)
ON CONFLICT (name) DO UPDATE
SET value = value + 1
