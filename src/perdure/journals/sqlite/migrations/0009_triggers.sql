-- Triggers as lists show them, kept in step by the appends of the runs that they are (TG11). A deleted one leaves its row, which says how
-- many of this name there were: the next one is another trigger, and its runs are others (rule 47).
-- Addresses of webhooks are random: their index need not be unique, and an append fails for no two of them.

CREATE TABLE triggers (
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    trigger_id TEXT NOT NULL,
    life       INTEGER NOT NULL,
    head       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    state      TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    workflow   TEXT NOT NULL,
    hook       TEXT,
    cursor     BLOB NOT NULL,
    next_at    REAL,
    last_at    REAL,
    waiting    INTEGER NOT NULL,
    open       INTEGER NOT NULL,
    parked     INTEGER NOT NULL,
    error      BLOB,
    body       BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX triggers_by_hook ON triggers (hook) WHERE hook IS NOT NULL;
