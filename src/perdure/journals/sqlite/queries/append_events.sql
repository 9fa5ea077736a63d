-- Python's driver looks for an adapter of each value that is bytes or None, which takes longer than to store it: a body comes as a
-- bytearray, and no commit id as an empty text.
INSERT INTO events (run_key, seq, type, at, commit_id, body)
VALUES (?, ?, ?, ?, nullif(?, ''), ?)
