-- Idempotency keys outlive their runs (PROTOCOL 11): when a run is deleted, its keys say when it had ended.

ALTER TABLE perdure.idempotency ADD COLUMN ended_at double precision;  -- null while the run is there

CREATE INDEX idempotency_left ON perdure.idempotency (ended_at) WHERE ended_at IS NOT NULL;
DROP INDEX perdure.idempotency_by_creation;

-- Runs that somebody writes to at this moment are left for the next time.
CREATE OR REPLACE FUNCTION perdure.prune_runs(before double precision, most_runs bigint, most_rows bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    run record;
    chosen text[] := '{}';
    rows bigint := 0;
BEGIN
    FOR run IN
        SELECT r.run_id, r.seq + coalesce((SELECT h.position FROM perdure.log_heads h WHERE h.run_id = r.run_id), 0) AS rows
        FROM perdure.runs r
        WHERE r.ended_at < before
          AND r.quarantined IS NULL
          AND NOT EXISTS (SELECT FROM perdure.runs p WHERE p.run_id = r.parent)
          AND NOT EXISTS (SELECT FROM perdure.runs c WHERE c.parent = r.run_id AND c.ended_at IS NULL)
        ORDER BY r.ended_at, r.run_id
        LIMIT most_runs
        FOR UPDATE OF r SKIP LOCKED
    LOOP
        rows := rows + run.rows;
        EXIT WHEN cardinality(chosen) > 0 AND rows > most_rows;
        chosen := chosen || run.run_id;
    END LOOP;
    DELETE FROM perdure.events e WHERE e.run_id = ANY (chosen);
    DELETE FROM perdure.run_tags t WHERE t.run_id = ANY (chosen);
    DELETE FROM perdure.snapshots s WHERE s.run_id = ANY (chosen);
    DELETE FROM perdure.timers t WHERE t.run_id = ANY (chosen);
    DELETE FROM perdure.approvals a WHERE a.run_id = ANY (chosen);
    DELETE FROM perdure.dead_letters d WHERE d.run_id = ANY (chosen);
    UPDATE perdure.idempotency i
    SET ended_at = r.ended_at
    FROM perdure.runs r
    WHERE r.run_id = i.run_id AND i.run_id = ANY (chosen) AND i.ended_at IS NULL;
    DELETE FROM perdure.links l WHERE l.run_id = ANY (chosen);
    DELETE FROM perdure.logs l WHERE l.run_id = ANY (chosen);
    DELETE FROM perdure.log_heads h WHERE h.run_id = ANY (chosen);
    DELETE FROM perdure.runs r WHERE r.run_id = ANY (chosen);
    RETURN cardinality(chosen);
END $$;
