-- Of runs in a list. Asked when they are listed, so that an append writes nothing for it.
SELECT r.run_id,
       (SELECT e.body FROM perdure.events e WHERE e.run_id = r.run_id AND e.seq = 1),
       (SELECT e.at FROM perdure.events e WHERE e.run_id = r.run_id AND e.seq = r.seq),
       (SELECT count(*) FROM perdure.dead_letters d WHERE d.run_id = r.run_id AND d.state = :letter_state)
FROM perdure.runs r
WHERE r.run_id = ANY (:run_ids)
