-- Of runs in a list. Asked when they are listed, so that an append writes nothing for it.
SELECT run_id,
       (SELECT body FROM events WHERE events.run_key = runs.run_key AND events.seq = 1),
       (SELECT at FROM events WHERE events.run_key = runs.run_key AND events.seq = runs.seq),
       (SELECT count(*) FROM dead_letters WHERE dead_letters.run_id = runs.run_id AND +dead_letters.state = :letter_state)
FROM runs
WHERE run_id IN (SELECT value FROM json_each(:run_ids))
