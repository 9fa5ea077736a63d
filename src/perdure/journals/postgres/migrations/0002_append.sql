-- The append, as functions that one statement calls one after the other: one round trip and one transaction for all
-- commits of a batch (docs/decisions/0030). Each statement inside a function sees what was committed before it began; the
-- lock of its run row, taken first, keeps everything of a run still until the end.
--
-- Commits have numbers: those that move a run come first, those that create one after them. `accepted[n]` says whether
-- commit n passed its guards; everything else a commit brings is written only then. Commits come sorted by run id, so that
-- two appends lock rows in the same order. A batch names no run, key, command, approval or dead letter twice.

-- Which of these fences hold: partition and epoch, incarnation; null: not asked.
CREATE FUNCTION perdure.hold_fences(partition_numbers integer[], epochs bigint[], incarnations bigint[])
RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    held boolean[];
BEGIN
    SELECT array_agg(
        (f.partition IS NULL OR f.epoch = coalesce(p.epoch, 0)) AND (f.incarnation IS NULL OR f.incarnation = m.incarnation)
        ORDER BY f.n
    )
    INTO held
    FROM unnest(partition_numbers, epochs, incarnations) WITH ORDINALITY AS f (partition, epoch, incarnation, n)
    CROSS JOIN perdure.meta m
    LEFT JOIN perdure.partitions p ON p.partition = f.partition;
    RETURN held;
END $$;

-- Commits of runs that exist. The sequence number is compared and set: that is the fence.
CREATE FUNCTION perdure.move_runs(
    held boolean[], fences integer[], run_ids text[], expected_seqs bigint[], seqs bigint[], commit_ids text[],
    states text[], irs text[], generations bigint[], counters bigint[], busies boolean[],
    starts double precision[], ends double precision[], errors bytea[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    moved integer[];
    accepted boolean[];
    number integer;
BEGIN
    IF cardinality(run_ids) = 0 THEN
        RETURN '{}';
    END IF;
    WITH updated AS (
        UPDATE perdure.runs r
        SET seq = c.seq, commit_id = c.commit_id, state = c.state, ir = c.ir, generation = c.generation,
            counter = c.counter, busy = c.busy, started_at = c.started_at, ended_at = c.ended_at, error = c.error
        FROM unnest(
            fences, run_ids, expected_seqs, seqs, commit_ids, states, irs, generations, counters, busies,
            starts, ends, errors
        ) WITH ORDINALITY AS c (
            fence, run_id, expected_seq, seq, commit_id, state, ir, generation, counter, busy,
            started_at, ended_at, error, n
        )
        WHERE r.run_id = c.run_id
          AND r.seq = c.expected_seq
          AND r.commit_id <> c.commit_id
          AND (c.fence = 0 OR held[c.fence])
        RETURNING c.n
    )
    SELECT array_agg(n) INTO moved FROM updated;
    IF cardinality(moved) = cardinality(run_ids) THEN
        RETURN array_fill(true, ARRAY[cardinality(run_ids)]);
    END IF;
    accepted := array_fill(false, ARRAY[cardinality(run_ids)]);
    FOREACH number IN ARRAY coalesce(moved, '{}') LOOP
        accepted[number] := true;
    END LOOP;
    RETURN accepted;
END $$;

-- Commits that create a run, with their idempotency keys. A key that somebody else takes at the same moment makes the
-- whole append fail, and its writer begins again: then the key is there to be seen.
CREATE FUNCTION perdure.create_runs(
    moved boolean[], held boolean[], fences integer[], run_ids text[], seqs bigint[], commit_ids text[],
    states text[], workflows text[], workflow_versions bigint[], irs text[], partition_numbers integer[], tenants text[],
    tag_objects bytea[], generations bigint[], counters bigint[], busies boolean[], creations double precision[],
    starts double precision[], ends double precision[], errors bytea[], parents text[],
    key_tenants text[], keys bytea[], body_hashes text[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    created text[];
    accepted boolean[];
    next integer := 1;
BEGIN
    IF cardinality(run_ids) = 0 THEN
        RETURN moved;
    END IF;
    WITH inserted AS (
        INSERT INTO perdure.runs AS r (
            run_id, seq, commit_id, state, workflow, workflow_version, ir, partition, tenant, tags,
            generation, counter, busy, created_at, started_at, ended_at, error, parent
        )
        SELECT c.run_id, c.seq, c.commit_id, c.state, c.workflow, c.workflow_version, c.ir, c.partition, c.tenant, c.tags,
               c.generation, c.counter, c.busy, c.created_at, c.started_at, c.ended_at, c.error, c.parent
        FROM unnest(
            fences, run_ids, seqs, commit_ids, states, workflows, workflow_versions, irs, partition_numbers, tenants,
            tag_objects, generations, counters, busies, creations, starts, ends, errors, parents, key_tenants, keys
        ) AS c (
            fence, run_id, seq, commit_id, state, workflow, workflow_version, ir, partition, tenant,
            tags, generation, counter, busy, created_at, started_at, ended_at, error, parent, key_tenant, key
        )
        WHERE (c.fence = 0 OR held[c.fence])
          AND (c.key IS NULL OR NOT EXISTS (
              SELECT FROM perdure.idempotency i WHERE i.tenant = c.key_tenant AND i.key = c.key
          ))
        ON CONFLICT (run_id) DO NOTHING
        RETURNING r.run_id
    )
    SELECT array_agg(run_id) INTO created FROM inserted;
    IF cardinality(created) = cardinality(run_ids) THEN
        accepted := array_fill(true, ARRAY[cardinality(run_ids)]);
    ELSE
        -- Both lists are in the same order.
        FOR number IN 1..cardinality(run_ids) LOOP
            accepted[number] := run_ids[number] IS NOT DISTINCT FROM created[next];
            IF accepted[number] THEN
                next := next + 1;
            END IF;
        END LOOP;
    END IF;
    IF cardinality(array_remove(keys, NULL)) > 0 THEN
        INSERT INTO perdure.idempotency (tenant, key, body_hash, run_id, created_at)
        SELECT c.tenant, c.key, c.body_hash, c.run_id, c.created_at
        FROM unnest(key_tenants, keys, body_hashes, run_ids, creations, accepted)
            AS c (tenant, key, body_hash, run_id, created_at, accepted)
        WHERE c.accepted AND c.key IS NOT NULL
        ORDER BY c.tenant, c.key;
    END IF;
    RETURN moved || accepted;
END $$;

CREATE FUNCTION perdure.append_events(
    accepted boolean[], run_ids text[], commits integer[], seqs bigint[], types text[], times double precision[],
    commit_ids text[], bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.events (run_id, seq, type, at, commit_id, body)
    SELECT run_ids[e.commit], e.seq, e.type, e.at, e.commit_id, e.body
    FROM unnest(commits, seqs, types, times, commit_ids, bodies) AS e (commit, seq, type, at, commit_id, body)
    WHERE accepted[e.commit];
END $$;

CREATE FUNCTION perdure.append_tags(
    accepted boolean[], commits integer[], run_ids text[], names bytea[], tag_values bytea[], creations double precision[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.run_tags (name, value, created_at, run_id)
    SELECT t.name, t.value, t.created_at, t.run_id
    FROM unnest(commits, run_ids, names, tag_values, creations) AS t (commit, run_id, name, value, created_at)
    WHERE accepted[t.commit];
END $$;

CREATE FUNCTION perdure.clear_timers(accepted boolean[], commits integer[], run_ids text[], timer_ids text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM perdure.timers t
    USING unnest(commits, run_ids, timer_ids) AS c (commit, run_id, timer_id)
    WHERE t.run_id = c.run_id AND t.timer_id = c.timer_id AND accepted[c.commit];
END $$;

CREATE FUNCTION perdure.set_timers(
    accepted boolean[], commits integer[], run_ids text[], timer_ids text[], due_times double precision[],
    partition_numbers integer[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.timers (run_id, timer_id, due_at, partition)
    SELECT t.run_id, t.timer_id, t.due_at, t.partition
    FROM unnest(commits, run_ids, timer_ids, due_times, partition_numbers)
        AS t (commit, run_id, timer_id, due_at, partition)
    WHERE accepted[t.commit]
    ON CONFLICT (run_id, timer_id) DO UPDATE SET due_at = excluded.due_at;
END $$;

CREATE FUNCTION perdure.keep_snapshots(
    accepted boolean[], commits integer[], run_ids text[], seqs bigint[], versions bigint[], bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.snapshots (run_id, seq, version, body)
    SELECT s.run_id, s.seq, s.version, s.body
    FROM unnest(commits, run_ids, seqs, versions, bodies) AS s (commit, run_id, seq, version, body)
    WHERE accepted[s.commit]
    ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, version = excluded.version, body = excluded.body;
END $$;

CREATE FUNCTION perdure.keep_approvals(
    accepted boolean[], commits integer[], approval_ids text[], run_ids text[], nodes text[], states text[],
    tenants text[], requests double precision[], expiries double precision[], decisions double precision[],
    bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.approvals AS kept (
        approval_id, run_id, node, state, tenant, requested_at, expires_at, decided_at, body
    )
    SELECT a.approval_id, a.run_id, a.node, a.state, a.tenant, a.requested_at, a.expires_at, a.decided_at, a.body
    FROM unnest(
        commits, approval_ids, run_ids, nodes, states, tenants, requests, expiries, decisions, bodies
    ) AS a (commit, approval_id, run_id, node, state, tenant, requested_at, expires_at, decided_at, body)
    WHERE accepted[a.commit]
    ON CONFLICT (approval_id) DO UPDATE
    SET state = excluded.state, expires_at = excluded.expires_at, decided_at = excluded.decided_at, body = excluded.body
    WHERE kept.run_id = excluded.run_id;
END $$;

CREATE FUNCTION perdure.keep_dead_letters(
    accepted boolean[], commits integer[], dead_letter_ids text[], run_ids text[], nodes text[], states text[],
    tenants text[], creations double precision[], resolutions double precision[], bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.dead_letters AS kept (dead_letter_id, run_id, node, state, tenant, created_at, resolved_at, body)
    SELECT d.dead_letter_id, d.run_id, d.node, d.state, d.tenant, d.created_at, d.resolved_at, d.body
    FROM unnest(
        commits, dead_letter_ids, run_ids, nodes, states, tenants, creations, resolutions, bodies
    ) AS d (commit, dead_letter_id, run_id, node, state, tenant, created_at, resolved_at, body)
    WHERE accepted[d.commit]
    ON CONFLICT (dead_letter_id) DO UPDATE
    SET state = excluded.state, resolved_at = excluded.resolved_at, body = excluded.body
    WHERE kept.run_id = excluded.run_id;
END $$;

-- The first answer stands.
CREATE FUNCTION perdure.answer_commands(
    accepted boolean[], commits integer[], command_ids text[], answers bytea[], now double precision
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE perdure.commands k
    SET answer = a.answer, answered_at = now
    FROM unnest(commits, command_ids, answers) AS a (commit, command_id, answer)
    WHERE k.command_id = a.command_id AND k.answered_at IS NULL AND accepted[a.commit];
END $$;

CREATE FUNCTION perdure.consume_notices(accepted boolean[], commits integer[], run_ids text[], notice_ids bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM perdure.notices k
    USING unnest(commits, run_ids, notice_ids) AS c (commit, run_id, notice_id)
    WHERE k.notice_id = c.notice_id AND k.run_id = c.run_id AND accepted[c.commit];
END $$;

-- The lock makes numbers visible in order; it is the last thing an append waits for, and kept only while it commits.
CREATE FUNCTION perdure.write_notices(
    accepted boolean[], commits integer[], partition_numbers integer[], run_ids text[], from_run_ids text[], bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1346720324, 2);
    INSERT INTO perdure.notices (partition, run_id, from_run_id, body)
    SELECT w.partition, w.run_id, w.from_run_id, w.body
    FROM unnest(commits, partition_numbers, run_ids, from_run_ids, bodies) AS w (commit, partition, run_id, from_run_id, body)
    WHERE accepted[w.commit];
END $$;

CREATE FUNCTION perdure.put_command(
    new_command_id text, to_run_id text, partition_number integer, now double precision, new_body bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1346720324, 3);
    INSERT INTO perdure.commands (command_id, run_id, partition, put_at, body)
    VALUES (new_command_id, to_run_id, partition_number, now, new_body)
    ON CONFLICT (command_id) DO NOTHING;
END $$;
