-- What the service keeps beside the runs: the rules stand in perdure/archive.py. Of keys and links there are only hashes.

CREATE TABLE perdure.version_notes (
    tenant   text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version  bigint NOT NULL,
    noted_by text COLLATE "C" NOT NULL,
    noted_at double precision NOT NULL,
    reason   bytea NOT NULL,
    PRIMARY KEY (tenant, workflow, version)
);

-- So that the number of a deleted version is never given out again.
CREATE TABLE perdure.deleted_workflows (
    tenant       text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    last_version bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- An alias that was deleted stays, to go on counting; where it points to is its move of that revision.
CREATE TABLE perdure.aliases (
    tenant   text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    alias    text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    present  boolean NOT NULL,
    PRIMARY KEY (tenant, workflow, alias)
);

CREATE TABLE perdure.alias_moves (
    tenant   text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    alias    text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    shares   text NOT NULL,  -- [[version, percent], …]
    moved_by text COLLATE "C" NOT NULL,
    moved_at double precision NOT NULL,
    reason   bytea NOT NULL,
    PRIMARY KEY (tenant, workflow, alias, revision)
);

CREATE TABLE perdure.api_keys (
    key_id       text COLLATE "C" PRIMARY KEY,
    tenant       text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    secret_hash  bytea NOT NULL,
    roles        text NOT NULL,
    scopes       text NOT NULL,
    created_by   text COLLATE "C" NOT NULL,
    created_at   double precision NOT NULL,
    expires_at   double precision,
    revoked_at   double precision,
    last_used_at double precision
);

CREATE INDEX api_keys_by_tenant ON perdure.api_keys (tenant, created_at, key_id);

CREATE TABLE perdure.links (
    token_hash  bytea PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    approval_id text COLLATE "C" NOT NULL,
    run_id      text COLLATE "C" NOT NULL,
    decision    text COLLATE "C" NOT NULL,
    approver    text COLLATE "C" NOT NULL,
    created_at  double precision NOT NULL,
    expires_at  double precision NOT NULL,
    consumed_at double precision
);

CREATE INDEX links_by_run ON perdure.links (run_id);
CREATE INDEX links_by_expiry ON perdure.links (expires_at);

CREATE TABLE perdure.audit (
    tenant        text COLLATE "C" NOT NULL,
    seq           bigint NOT NULL,
    at            double precision NOT NULL,
    principal     text COLLATE "C" NOT NULL,
    action        text COLLATE "C" NOT NULL,
    object        text COLLATE "C" NOT NULL,
    detail        bytea NOT NULL,
    request_id    text COLLATE "C" NOT NULL,
    previous_hash bytea NOT NULL,
    hash          bytea NOT NULL,
    PRIMARY KEY (tenant, seq)
);

CREATE INDEX audit_by_time ON perdure.audit (tenant, at, seq);
CREATE INDEX audit_by_principal ON perdure.audit (tenant, principal, at, seq);
CREATE INDEX audit_by_action ON perdure.audit (tenant, action, at, seq);
CREATE INDEX audit_by_object ON perdure.audit (tenant, object, at, seq);

-- The end of each chain, apart from it: a chain whose last entries are gone is noticed. Its row is locked by who adds.
CREATE TABLE perdure.audit_heads (
    tenant text COLLATE "C" PRIMARY KEY,
    seq    bigint NOT NULL,
    hash   bytea NOT NULL
);

CREATE FUNCTION perdure.keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit entries are never changed or deleted' USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER audit_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON perdure.audit
FOR EACH STATEMENT EXECUTE FUNCTION perdure.keep_audit();

CREATE TABLE perdure.logs (
    run_id   text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    node     text COLLATE "C" NOT NULL,
    visit    bigint NOT NULL,
    attempt  bigint NOT NULL,
    at       double precision NOT NULL,
    level    text COLLATE "C" NOT NULL,
    message  bytea NOT NULL,
    PRIMARY KEY (run_id, position)
);

CREATE TABLE perdure.log_heads (
    run_id   text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
);

CREATE INDEX runs_unended ON perdure.runs (tenant, workflow, workflow_version, run_id) WHERE ended_at IS NULL;
CREATE INDEX runs_ended ON perdure.runs (ended_at, run_id) WHERE ended_at IS NOT NULL;

-- (done, revision), (missing, version) or (moved, revision). Versions are locked against deletion, then the alias.
CREATE FUNCTION perdure.put_alias(
    for_tenant text, for_workflow text, for_alias text, versions bigint[], new_shares text, moved_by text,
    moved_at double precision, reason bytea, expected bigint
) RETURNS TABLE (outcome text, number bigint) LANGUAGE plpgsql AS $$
DECLARE
    there bigint[];
    kept perdure.aliases;
BEGIN
    SELECT coalesce(array_agg(w.version), '{}') INTO there
    FROM (
        SELECT v.version
        FROM perdure.workflows v
        WHERE v.tenant = for_tenant AND v.name = for_workflow AND v.version = ANY (versions)
        FOR SHARE
    ) w;
    SELECT 'missing', v INTO outcome, number FROM unnest(versions) AS v WHERE v <> ALL (there) LIMIT 1;
    IF FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    INSERT INTO perdure.aliases (tenant, workflow, alias, revision, present)
    VALUES (for_tenant, for_workflow, for_alias, 0, false)
    ON CONFLICT (tenant, workflow, alias) DO NOTHING;
    SELECT a.* INTO kept
    FROM perdure.aliases a
    WHERE a.tenant = for_tenant AND a.workflow = for_workflow AND a.alias = for_alias
    FOR UPDATE;
    number := CASE WHEN kept.present THEN kept.revision ELSE 0 END;
    IF expected <> number THEN
        outcome := 'moved';
        RETURN NEXT;
        RETURN;
    END IF;
    outcome := 'done';
    number := kept.revision + 1;
    INSERT INTO perdure.alias_moves (tenant, workflow, alias, revision, shares, moved_by, moved_at, reason)
    VALUES (for_tenant, for_workflow, for_alias, number, new_shares, moved_by, moved_at, reason);
    UPDATE perdure.aliases a
    SET revision = number, present = true
    WHERE a.tenant = for_tenant AND a.workflow = for_workflow AND a.alias = for_alias;
    RETURN NEXT;
END $$;

-- (done, how many), (missing, ''), (runs, how many) or (alias, its name). Without a version, all of them.
CREATE FUNCTION perdure.delete_workflow(for_tenant text, for_workflow text, one_version bigint)
RETURNS TABLE (outcome text, detail text) LANGUAGE plpgsql AS $$
DECLARE
    gone bigint[];
    users bigint;
BEGIN
    SELECT array_agg(w.version) INTO gone
    FROM (
        SELECT v.version
        FROM perdure.workflows v
        WHERE v.tenant = for_tenant AND v.name = for_workflow AND (one_version IS NULL OR v.version = one_version)
        FOR UPDATE
    ) w;
    IF gone IS NULL THEN
        RETURN QUERY SELECT 'missing', '';
        RETURN;
    END IF;
    SELECT count(*) INTO users
    FROM perdure.runs r
    WHERE r.tenant = for_tenant AND r.workflow = for_workflow AND r.workflow_version = ANY (gone) AND r.ended_at IS NULL;
    IF users > 0 THEN
        RETURN QUERY SELECT 'runs', users::text;
        RETURN;
    END IF;
    IF one_version IS NULL THEN
        DELETE FROM perdure.aliases a WHERE a.tenant = for_tenant AND a.workflow = for_workflow;
        DELETE FROM perdure.alias_moves m WHERE m.tenant = for_tenant AND m.workflow = for_workflow;
    ELSE
        RETURN QUERY
        SELECT 'alias', m.alias
        FROM perdure.aliases a
        JOIN perdure.alias_moves m USING (tenant, workflow, alias, revision)
        CROSS JOIN jsonb_array_elements(m.shares::jsonb) AS share
        WHERE a.tenant = for_tenant AND a.workflow = for_workflow AND a.present AND (share ->> 0)::bigint = one_version
        ORDER BY m.alias
        LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    INSERT INTO perdure.deleted_workflows AS d (tenant, name, last_version)
    SELECT for_tenant, for_workflow, max(version) FROM unnest(gone) AS version
    ON CONFLICT (tenant, name) DO UPDATE SET last_version = greatest(d.last_version, excluded.last_version);
    DELETE FROM perdure.workflows w WHERE w.tenant = for_tenant AND w.name = for_workflow AND w.version = ANY (gone);
    DELETE FROM perdure.version_notes n WHERE n.tenant = for_tenant AND n.workflow = for_workflow AND n.version = ANY (gone);
    RETURN QUERY SELECT 'done', cardinality(gone)::text;
END $$;

-- At the ends of the chains. Entries come sorted by tenant, so that two calls lock heads in the same order.
CREATE FUNCTION perdure.append_audit(
    tenants text[], times double precision[], principals text[], actions text[], objects text[], details bytea[],
    request_ids text[], payloads bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    head perdure.audit_heads;
    next_hash bytea;
BEGIN
    FOR n IN 1..cardinality(tenants) LOOP
        INSERT INTO perdure.audit_heads (tenant, seq, hash)
        VALUES (tenants[n], 0, decode(repeat('00', 32), 'hex'))
        ON CONFLICT (tenant) DO NOTHING;
        SELECT h.* INTO head FROM perdure.audit_heads h WHERE h.tenant = tenants[n] FOR UPDATE;
        next_hash := sha256(head.hash || int8send(head.seq + 1) || payloads[n]);
        INSERT INTO perdure.audit (
            tenant, seq, at, principal, action, object, detail, request_id, previous_hash, hash
        ) VALUES (
            tenants[n], head.seq + 1, times[n], principals[n], actions[n], objects[n], details[n], request_ids[n],
            head.hash, next_hash
        );
        UPDATE perdure.audit_heads h SET seq = head.seq + 1, hash = next_hash WHERE h.tenant = tenants[n];
    END LOOP;
END $$;

-- Lines come sorted by run, those of a run in order. The row of the head is locked: positions become visible in order.
CREATE FUNCTION perdure.append_logs(
    run_ids text[], tenants text[], nodes text[], visits bigint[], attempts bigint[], times double precision[],
    levels text[], messages bytea[], kept_lines bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH heads AS (
        INSERT INTO perdure.log_heads AS h (run_id, position)
        SELECT l.run_id, count(*)
        FROM unnest(run_ids, tenants) AS l (run_id, tenant)
        JOIN perdure.runs r ON r.run_id = l.run_id AND r.tenant = l.tenant
        GROUP BY l.run_id
        ORDER BY l.run_id
        ON CONFLICT (run_id) DO UPDATE SET position = h.position + excluded.position
        RETURNING h.run_id, h.position
    )
    INSERT INTO perdure.logs (run_id, position, tenant, node, visit, attempt, at, level, message)
    SELECT l.run_id, h.position + 1 - row_number() OVER (PARTITION BY l.run_id ORDER BY l.n DESC),
           l.tenant, l.node, l.visit, l.attempt, l.at, l.level, l.message
    FROM unnest(run_ids, tenants, nodes, visits, attempts, times, levels, messages) WITH ORDINALITY
        AS l (run_id, tenant, node, visit, attempt, at, level, message, n)
    JOIN heads h ON h.run_id = l.run_id
    JOIN perdure.runs r ON r.run_id = l.run_id AND r.tenant = l.tenant;
    DELETE FROM perdure.logs l
    USING (SELECT DISTINCT unnest(run_ids) AS run_id) AS named
    JOIN perdure.log_heads h ON h.run_id = named.run_id
    WHERE l.run_id = h.run_id AND l.position <= h.position - kept_lines;
END $$;

-- Runs that somebody writes to at this moment are left for the next time.
CREATE FUNCTION perdure.prune_runs(before double precision, most_runs bigint, most_rows bigint)
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
    DELETE FROM perdure.idempotency i WHERE i.run_id = ANY (chosen);
    DELETE FROM perdure.links l WHERE l.run_id = ANY (chosen);
    DELETE FROM perdure.logs l WHERE l.run_id = ANY (chosen);
    DELETE FROM perdure.log_heads h WHERE h.run_id = ANY (chosen);
    DELETE FROM perdure.runs r WHERE r.run_id = ANY (chosen);
    RETURN cardinality(chosen);
END $$;
