-- What happened and has a topic: events that were sent, and ends of runs that somebody waits for. Whoever has subscribed reads behind the position
-- that it has got to. The lock is held until the transaction ends, so positions become visible in their order (G4).

CREATE TABLE perdure.occurrences (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    topic    text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    at       double precision NOT NULL,
    body     bytea NOT NULL
);

CREATE UNIQUE INDEX occurrences_by_id ON perdure.occurrences (tenant, topic, id);
CREATE INDEX occurrences_by_topic ON perdure.occurrences (tenant, topic, position);
CREATE INDEX occurrences_by_key ON perdure.occurrences (tenant, topic, key, position);
CREATE INDEX occurrences_by_age ON perdure.occurrences (at);

CREATE TABLE perdure.subscriptions (
    tenant    text COLLATE "C" NOT NULL,
    topic     text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    run_id    text COLLATE "C" NOT NULL,
    place     text COLLATE "C" NOT NULL,
    since     bigint NOT NULL,
    since_at  double precision,
    partition integer NOT NULL,
    PRIMARY KEY (place)
);

CREATE INDEX subscriptions_by_topic ON perdure.subscriptions (tenant, topic, key, place);
CREATE INDEX subscriptions_by_run ON perdure.subscriptions (run_id, place);
CREATE INDEX subscriptions_reading ON perdure.subscriptions (tenant, topic, since) WHERE since_at IS NULL;

CREATE FUNCTION perdure.clear_subscriptions(accepted boolean[], commits integer[], places text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM perdure.subscriptions s
    USING unnest(commits, places) AS c (commit, place)
    WHERE s.place = c.place AND accepted[c.commit];
END $$;

CREATE FUNCTION perdure.set_subscriptions(
    accepted boolean[], commits integer[], tenants text[], topics text[], keys text[], run_ids text[], places text[],
    sinces bigint[], since_times double precision[], partition_numbers integer[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.subscriptions (tenant, topic, key, run_id, place, since, since_at, partition)
    SELECT s.tenant, s.topic, s.key, s.run_id, s.place, s.since, s.since_at, s.partition
    FROM unnest(commits, tenants, topics, keys, run_ids, places, sinces, since_times, partition_numbers)
        AS s (commit, tenant, topic, key, run_id, place, since, since_at, partition)
    WHERE accepted[s.commit]
    ON CONFLICT (place) DO UPDATE
    SET
        tenant = excluded.tenant, topic = excluded.topic, key = excluded.key, run_id = excluded.run_id,
        since = excluded.since, since_at = excluded.since_at, partition = excluded.partition;
END $$;

-- Nobody pays for what nobody waits for: without a subscription there is neither lock nor row.
CREATE FUNCTION perdure.write_occurrences(
    accepted boolean[], commits integer[], tenants text[], topics text[], keys text[], ids text[],
    times double precision[], bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wanted integer[];
BEGIN
    SELECT array_agg(o.place) INTO wanted
    FROM unnest(commits, tenants, topics) WITH ORDINALITY AS o (commit, tenant, topic, place)
    WHERE accepted[o.commit]
      AND EXISTS (SELECT FROM perdure.subscriptions s WHERE s.tenant = o.tenant AND s.topic = o.topic);
    IF wanted IS NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(1346720324, 5);
    INSERT INTO perdure.occurrences (tenant, topic, key, id, at, body)
    SELECT o.tenant, o.topic, o.key, o.id, o.at, o.body
    FROM unnest(tenants, topics, keys, ids, times, bodies) WITH ORDINALITY
        AS o (tenant, topic, key, id, at, body, place)
    WHERE o.place = ANY (wanted)
    ORDER BY o.place
    ON CONFLICT (tenant, topic, id) DO NOTHING;
END $$;

CREATE FUNCTION perdure.put_occurrences(
    tenants text[], topics text[], keys text[], ids text[], times double precision[], bodies bytea[]
) RETURNS TABLE (place bigint, kept bigint, fresh boolean) LANGUAGE plpgsql AS $$
DECLARE
    before bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1346720324, 5);
    SELECT coalesce(max(o.position), 0) INTO before FROM perdure.occurrences o;
    INSERT INTO perdure.occurrences (tenant, topic, key, id, at, body)
    SELECT o.tenant, o.topic, o.key, o.id, o.at, o.body
    FROM unnest(tenants, topics, keys, ids, times, bodies) WITH ORDINALITY
        AS o (tenant, topic, key, id, at, body, ordinal)
    ORDER BY o.ordinal
    ON CONFLICT (tenant, topic, id) DO NOTHING;
    RETURN QUERY
    SELECT o.ordinal, k.position, k.position > before
    FROM unnest(tenants, topics, ids) WITH ORDINALITY AS o (tenant, topic, id, ordinal)
    JOIN perdure.occurrences k ON k.tenant = o.tenant AND k.topic = o.topic AND k.id = o.id
    ORDER BY o.ordinal;
END $$;

-- As before, and with the places of the runs. Runs that somebody writes to at this moment are left for the next time.
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
    DELETE FROM perdure.subscriptions s WHERE s.run_id = ANY (chosen);
    DELETE FROM perdure.links l WHERE l.run_id = ANY (chosen);
    DELETE FROM perdure.logs l WHERE l.run_id = ANY (chosen);
    DELETE FROM perdure.log_heads h WHERE h.run_id = ANY (chosen);
    DELETE FROM perdure.runs r WHERE r.run_id = ANY (chosen);
    RETURN cardinality(chosen);
END $$;
