-- The journal of the distributed engine. Times are seconds since the epoch, by the clocks of those who write; only leases
-- use the clock of the database. Ids and states are the caller's.
--
-- Names that are compared or sorted are so by their bytes, as in Python and SQLite. What people write freely (tags, keys,
-- reasons) and what Perdure encodes is bytea, which holds every byte; text holds no NUL.
--
-- No foreign keys: every row of a run is written in a transaction that holds the lock of its run row.

CREATE SCHEMA perdure;

CREATE TABLE perdure.meta (
    only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    schema_version integer NOT NULL,
    partitions     integer NOT NULL,
    incarnation    bigint NOT NULL DEFAULT 1,
    -- Which server, timeline, database and table this row was last seen in: another one after a restore or a failover.
    identity       text
);

CREATE TABLE perdure.partitions (
    partition integer PRIMARY KEY,
    epoch     bigint NOT NULL DEFAULT 0,
    holder    text COLLATE "C"
);

CREATE TABLE perdure.coordinators (
    holder     text COLLATE "C" PRIMARY KEY,
    expires_at timestamptz NOT NULL
);

-- Space is left in every page: most updates change no indexed column and then touch no index (HOT).
CREATE TABLE perdure.runs (
    run_id           text COLLATE "C" PRIMARY KEY,
    seq              bigint NOT NULL,
    commit_id        text COLLATE "C" NOT NULL,
    state            text COLLATE "C" NOT NULL,
    workflow         text COLLATE "C" NOT NULL,
    workflow_version bigint NOT NULL,
    ir               text COLLATE "C" NOT NULL,
    partition        integer NOT NULL,
    tenant           text COLLATE "C" NOT NULL,
    tags             bytea NOT NULL,
    generation       bigint NOT NULL,
    counter          bigint NOT NULL,
    busy             boolean NOT NULL,
    created_at       double precision NOT NULL,
    started_at       double precision,
    ended_at         double precision,
    error            bytea,
    parent           text COLLATE "C",
    quarantined      bytea
) WITH (fillfactor = 70);

CREATE INDEX runs_by_creation ON perdure.runs (created_at, run_id);
CREATE INDEX runs_by_tenant ON perdure.runs (tenant, created_at, run_id);
CREATE INDEX runs_by_workflow ON perdure.runs (workflow, created_at, run_id);
CREATE INDEX runs_by_state ON perdure.runs (state, created_at, run_id);
CREATE INDEX runs_by_parent ON perdure.runs (parent, created_at, run_id) WHERE parent IS NOT NULL;
CREATE INDEX runs_quarantined ON perdure.runs (created_at, run_id) WHERE quarantined IS NOT NULL;
CREATE INDEX runs_active ON perdure.runs (run_id) WHERE ended_at IS NULL AND quarantined IS NULL;
CREATE INDEX runs_busy ON perdure.runs (run_id) WHERE busy AND ended_at IS NULL AND quarantined IS NULL;

CREATE TABLE perdure.run_tags (
    name       bytea NOT NULL,
    value      bytea NOT NULL,
    created_at double precision NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    PRIMARY KEY (name, value, created_at, run_id)
);

CREATE INDEX run_tags_by_run ON perdure.run_tags (run_id);

-- commit_id stands on the last event of each commit only.
CREATE TABLE perdure.events (
    run_id    text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    type      text COLLATE "C" NOT NULL,
    at        double precision NOT NULL,
    commit_id text COLLATE "C",
    body      bytea NOT NULL,
    PRIMARY KEY (run_id, seq)
) PARTITION BY HASH (run_id);

DO $$
BEGIN
    FOR number IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE perdure.events_%s PARTITION OF perdure.events FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
            lpad(number::text, 2, '0'), number
        );
    END LOOP;
END $$;

CREATE TABLE perdure.snapshots (
    run_id  text COLLATE "C" PRIMARY KEY,
    seq     bigint NOT NULL,
    version bigint NOT NULL,
    body    bytea NOT NULL
);

CREATE TABLE perdure.timers (
    run_id    text COLLATE "C" NOT NULL,
    timer_id  text COLLATE "C" NOT NULL,
    due_at    double precision NOT NULL,
    partition integer NOT NULL,
    PRIMARY KEY (run_id, timer_id)
);

CREATE INDEX timers_by_due ON perdure.timers (due_at, partition);

CREATE TABLE perdure.approvals (
    approval_id  text COLLATE "C" PRIMARY KEY,
    run_id       text COLLATE "C" NOT NULL,
    node         text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    requested_at double precision NOT NULL,
    expires_at   double precision,
    decided_at   double precision,
    body         bytea NOT NULL
);

CREATE INDEX approvals_by_time ON perdure.approvals (requested_at, approval_id);
CREATE INDEX approvals_by_state ON perdure.approvals (state, requested_at, approval_id);
CREATE INDEX approvals_by_tenant ON perdure.approvals (tenant, state, requested_at, approval_id);
CREATE INDEX approvals_by_run ON perdure.approvals (run_id, requested_at, approval_id);

CREATE TABLE perdure.dead_letters (
    dead_letter_id text COLLATE "C" PRIMARY KEY,
    run_id         text COLLATE "C" NOT NULL,
    node           text COLLATE "C" NOT NULL,
    state          text COLLATE "C" NOT NULL,
    tenant         text COLLATE "C" NOT NULL,
    created_at     double precision NOT NULL,
    resolved_at    double precision,
    body           bytea NOT NULL
);

CREATE INDEX dead_letters_by_time ON perdure.dead_letters (created_at, dead_letter_id);
CREATE INDEX dead_letters_by_state ON perdure.dead_letters (state, created_at, dead_letter_id);
CREATE INDEX dead_letters_by_tenant ON perdure.dead_letters (tenant, state, created_at, dead_letter_id);
CREATE INDEX dead_letters_by_run ON perdure.dead_letters (run_id, created_at, dead_letter_id);

-- Numbers are given out under a lock that is kept to the end of the transaction (0002), so that they become visible in
-- order: a reader that asks for "after this number" misses nothing that was under way.
CREATE TABLE perdure.notices (
    notice_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition   integer NOT NULL,
    run_id      text COLLATE "C" NOT NULL,
    from_run_id text COLLATE "C" NOT NULL,
    body        bytea NOT NULL
);

CREATE TABLE perdure.commands (
    position    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    command_id  text COLLATE "C" NOT NULL UNIQUE,
    run_id      text COLLATE "C" NOT NULL,
    partition   integer NOT NULL,
    put_at      double precision NOT NULL,
    body        bytea NOT NULL,
    answer      bytea,
    answered_at double precision
);

CREATE INDEX commands_waiting ON perdure.commands (position) WHERE answered_at IS NULL;
CREATE INDEX commands_answered ON perdure.commands (answered_at) WHERE answered_at IS NOT NULL;

CREATE TABLE perdure.idempotency (
    tenant     text COLLATE "C" NOT NULL,
    key        bytea NOT NULL,
    body_hash  text COLLATE "C" NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX idempotency_by_creation ON perdure.idempotency (created_at);
CREATE INDEX idempotency_by_run ON perdure.idempotency (run_id);

CREATE TABLE perdure.definitions (
    hash text COLLATE "C" PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    body bytea NOT NULL
);

CREATE TABLE perdure.workflows (
    tenant          text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    version         bigint NOT NULL,
    definition_hash text COLLATE "C" NOT NULL,
    ir_hash         text COLLATE "C" NOT NULL,
    registered_at   double precision NOT NULL,
    PRIMARY KEY (tenant, name, definition_hash)
);

CREATE UNIQUE INDEX workflows_by_version ON perdure.workflows (tenant, name, version DESC);
