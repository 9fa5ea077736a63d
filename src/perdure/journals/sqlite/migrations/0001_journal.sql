-- The journal of the embedded engine. Times are seconds since the epoch; ids and states are the caller's.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE partitions (
    partition INTEGER PRIMARY KEY,
    epoch     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- run_key is the small name of a run inside this file; it never leaves it.
CREATE TABLE runs (
    run_key          INTEGER PRIMARY KEY,
    run_id           TEXT NOT NULL UNIQUE,
    seq              INTEGER NOT NULL,
    commit_id        TEXT NOT NULL,
    state            TEXT NOT NULL,
    workflow         TEXT NOT NULL,
    workflow_version INTEGER NOT NULL,
    ir               TEXT NOT NULL,
    partition        INTEGER NOT NULL,
    tenant           TEXT NOT NULL,
    tags             BLOB NOT NULL,
    generation       INTEGER NOT NULL,
    counter          INTEGER NOT NULL,
    busy             INTEGER NOT NULL,
    created_at       REAL NOT NULL,
    started_at       REAL,
    ended_at         REAL,
    error            BLOB,
    parent           TEXT,
    quarantined      TEXT
) STRICT;

CREATE INDEX runs_by_creation ON runs (created_at);
CREATE INDEX runs_by_workflow ON runs (workflow, created_at);
CREATE INDEX runs_by_state ON runs (state, created_at);
CREATE INDEX runs_by_parent ON runs (parent, created_at) WHERE parent IS NOT NULL;
CREATE INDEX runs_quarantined ON runs (created_at) WHERE quarantined IS NOT NULL;
CREATE INDEX runs_active ON runs (run_id) WHERE ended_at IS NULL AND quarantined IS NULL;
CREATE INDEX runs_busy ON runs (run_id) WHERE busy = 1 AND ended_at IS NULL AND quarantined IS NULL;

CREATE TABLE run_tags (
    name       TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at REAL NOT NULL,
    run_key    INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    PRIMARY KEY (name, value, created_at, run_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_tags_by_run ON run_tags (run_key);

-- Rows are appended and found through the index: a batch of many runs then dirties few pages. No foreign key: every
-- insert follows a read of its run in the same transaction. commit_id stands on the last event of each commit only.
CREATE TABLE events (
    run_key   INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    type      TEXT NOT NULL,
    at        REAL NOT NULL,
    commit_id TEXT,
    body      BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_by_run ON events (run_key, seq);

CREATE TABLE snapshots (
    run_key INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    version INTEGER NOT NULL,
    body    BLOB NOT NULL
) STRICT;

CREATE TABLE timers (
    run_key   INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    timer_id  TEXT NOT NULL,
    due_at    REAL NOT NULL,
    partition INTEGER NOT NULL,
    PRIMARY KEY (run_key, timer_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX timers_by_due ON timers (due_at, partition);

CREATE TABLE approvals (
    approval_id  TEXT PRIMARY KEY,
    run_id       TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    node         TEXT NOT NULL,
    state        TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    requested_at REAL NOT NULL,
    expires_at   REAL,
    decided_at   REAL,
    body         BLOB NOT NULL
) STRICT;

CREATE INDEX approvals_by_time ON approvals (requested_at, approval_id);
CREATE INDEX approvals_by_state ON approvals (state, requested_at, approval_id);
CREATE INDEX approvals_by_run ON approvals (run_id, requested_at, approval_id);

CREATE TABLE dead_letters (
    dead_letter_id TEXT PRIMARY KEY,
    run_id         TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    node           TEXT NOT NULL,
    state          TEXT NOT NULL,
    tenant         TEXT NOT NULL,
    created_at     REAL NOT NULL,
    resolved_at    REAL,
    body           BLOB NOT NULL
) STRICT;

CREATE INDEX dead_letters_by_time ON dead_letters (created_at, dead_letter_id);
CREATE INDEX dead_letters_by_state ON dead_letters (state, created_at, dead_letter_id);
CREATE INDEX dead_letters_by_run ON dead_letters (run_id, created_at, dead_letter_id);

-- AUTOINCREMENT: an id is never used twice, so "after this id" stays meaningful when rows are deleted.
CREATE TABLE notices (
    notice_id   INTEGER PRIMARY KEY AUTOINCREMENT,
    partition   INTEGER NOT NULL,
    run_id      TEXT NOT NULL,
    from_run_id TEXT NOT NULL,
    body        BLOB NOT NULL
) STRICT;

CREATE TABLE commands (
    position    INTEGER PRIMARY KEY AUTOINCREMENT,
    command_id  TEXT NOT NULL UNIQUE,
    run_id      TEXT NOT NULL,
    partition   INTEGER NOT NULL,
    put_at      REAL NOT NULL,
    body        BLOB NOT NULL,
    answer      BLOB,
    answered_at REAL
) STRICT;

CREATE INDEX commands_waiting ON commands (position) WHERE answered_at IS NULL;
CREATE INDEX commands_answered ON commands (answered_at) WHERE answered_at IS NOT NULL;

CREATE TABLE idempotency (
    tenant     TEXT NOT NULL,
    key        TEXT NOT NULL,
    body_hash  TEXT NOT NULL,
    run_id     TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    created_at REAL NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_by_creation ON idempotency (created_at);
CREATE INDEX idempotency_by_run ON idempotency (run_id);

CREATE TABLE definitions (
    hash TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE workflows (
    tenant          TEXT NOT NULL,
    name            TEXT NOT NULL,
    version         INTEGER NOT NULL,
    definition_hash TEXT NOT NULL,
    ir_hash         TEXT NOT NULL,
    registered_at   REAL NOT NULL,
    PRIMARY KEY (tenant, name, version),
    UNIQUE (tenant, name, definition_hash)
) STRICT, WITHOUT ROWID;
