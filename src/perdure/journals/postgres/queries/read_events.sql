-- The events of several runs, each after a place of its own.
SELECT asked.number, found.seq, found.type, found.at, found.body
FROM unnest(:run_ids::text[], :afters::bigint[]) WITH ORDINALITY AS asked (run_id, after, number)
CROSS JOIN LATERAL (
    SELECT seq, type, at, body
    FROM perdure.events
    WHERE events.run_id = asked.run_id
      AND events.seq > asked.after
    ORDER BY seq
    LIMIT :limit
) AS found
ORDER BY asked.number, found.seq
