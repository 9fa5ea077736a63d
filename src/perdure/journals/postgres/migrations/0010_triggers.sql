-- Triggers as lists show them, kept in step by the appends of the runs that they are (TG11). A deleted one leaves its row, which says how
-- many of this name there were: the next one is another trigger, and its runs are others (rule 47).
-- Addresses of webhooks are random: their index need not be unique, and an append fails for no two of them.

CREATE TABLE perdure.triggers (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    trigger_id text COLLATE "C" NOT NULL,
    life       integer NOT NULL,
    head       text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    revision   bigint NOT NULL,
    workflow   text COLLATE "C" NOT NULL,
    hook       text COLLATE "C",
    cursor     bytea NOT NULL,
    next_at    double precision,
    last_at    double precision,
    waiting    integer NOT NULL,
    open       integer NOT NULL,
    parked     integer NOT NULL,
    error      bytea,
    body       bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE INDEX triggers_by_hook ON perdure.triggers (hook) WHERE hook IS NOT NULL;

CREATE FUNCTION perdure.keep_triggers(
    accepted boolean[], commits integer[], tenants text[], names text[], trigger_ids text[], lives integer[],
    heads text[], kinds text[], states text[], revisions bigint[], workflows text[], hooks text[], cursors bytea[],
    nexts double precision[], lasts double precision[], waits integer[], opens integer[], parks integer[],
    errors bytea[], bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.triggers AS kept (
        tenant, name, trigger_id, life, head, kind, state, revision, workflow, hook, cursor, next_at, last_at,
        waiting, open, parked, error, body
    )
    SELECT
        t.tenant, t.name, t.trigger_id, t.life, t.head, t.kind, t.state, t.revision, t.workflow, t.hook, t.cursor,
        t.next_at, t.last_at, t.waiting, t.open, t.parked, t.error, t.body
    FROM unnest(
        commits, tenants, names, trigger_ids, lives, heads, kinds, states, revisions, workflows, hooks, cursors,
        nexts, lasts, waits, opens, parks, errors, bodies
    ) AS t (
        commit, tenant, name, trigger_id, life, head, kind, state, revision, workflow, hook, cursor, next_at,
        last_at, waiting, open, parked, error, body
    )
    WHERE accepted[t.commit]
    ON CONFLICT (tenant, name) DO UPDATE
    SET
        trigger_id = excluded.trigger_id, life = excluded.life, head = excluded.head, kind = excluded.kind,
        state = excluded.state, revision = excluded.revision, workflow = excluded.workflow, hook = excluded.hook,
        cursor = excluded.cursor, next_at = excluded.next_at, last_at = excluded.last_at, waiting = excluded.waiting,
        open = excluded.open, parked = excluded.parked, error = excluded.error, body = excluded.body
    WHERE kept.life <= excluded.life;
END $$;
