-- What the service keeps beside the runs (perdure/archive.py). Of keys and links there are only hashes.

CREATE TABLE version_notes (
    tenant   TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version  INTEGER NOT NULL,
    noted_by TEXT NOT NULL,
    noted_at REAL NOT NULL,
    reason   BLOB NOT NULL,
    PRIMARY KEY (tenant, workflow, version)
) STRICT, WITHOUT ROWID;

-- So that the number of a deleted version is never given out again.
CREATE TABLE deleted_workflows (
    tenant       TEXT NOT NULL,
    name         TEXT NOT NULL,
    last_version INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- An alias that was deleted stays, to go on counting; where it points to is its move of that revision.
CREATE TABLE aliases (
    tenant   TEXT NOT NULL,
    workflow TEXT NOT NULL,
    alias    TEXT NOT NULL,
    revision INTEGER NOT NULL,
    present  INTEGER NOT NULL,
    PRIMARY KEY (tenant, workflow, alias)
) STRICT, WITHOUT ROWID;

CREATE TABLE alias_moves (
    tenant   TEXT NOT NULL,
    workflow TEXT NOT NULL,
    alias    TEXT NOT NULL,
    revision INTEGER NOT NULL,
    shares   TEXT NOT NULL,  -- [[version, percent], …]
    moved_by TEXT NOT NULL,
    moved_at REAL NOT NULL,
    reason   BLOB NOT NULL,
    PRIMARY KEY (tenant, workflow, alias, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    key_id       TEXT PRIMARY KEY,
    tenant       TEXT NOT NULL,
    name         TEXT NOT NULL,
    secret_hash  BLOB NOT NULL,
    roles        TEXT NOT NULL,
    scopes       TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   REAL NOT NULL,
    expires_at   REAL,
    revoked_at   REAL,
    last_used_at REAL
) STRICT;

CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created_at, key_id);

CREATE TABLE links (
    token_hash  BLOB PRIMARY KEY,
    tenant      TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    decision    TEXT NOT NULL,
    approver    TEXT NOT NULL,
    created_at  REAL NOT NULL,
    expires_at  REAL NOT NULL,
    consumed_at REAL
) STRICT, WITHOUT ROWID;

CREATE INDEX links_by_run ON links (run_id);
CREATE INDEX links_by_expiry ON links (expires_at);

CREATE TABLE audit (
    tenant        TEXT NOT NULL,
    seq           INTEGER NOT NULL,
    at            REAL NOT NULL,
    principal     TEXT NOT NULL,
    action        TEXT NOT NULL,
    object        TEXT NOT NULL,
    detail        BLOB NOT NULL,
    request_id    TEXT NOT NULL,
    previous_hash BLOB NOT NULL,
    hash          BLOB NOT NULL,
    PRIMARY KEY (tenant, seq)
) STRICT;

CREATE INDEX audit_by_time ON audit (tenant, at, seq);
CREATE INDEX audit_by_principal ON audit (tenant, principal, at, seq);
CREATE INDEX audit_by_action ON audit (tenant, action, at, seq);
CREATE INDEX audit_by_object ON audit (tenant, object, at, seq);

-- The end of each chain, apart from it: a chain whose last entries are gone is noticed.
CREATE TABLE audit_heads (
    tenant TEXT PRIMARY KEY,
    seq    INTEGER NOT NULL,
    hash   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit entries are never changed');
END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit entries are never deleted');
END;

CREATE TABLE logs (
    run_id   TEXT NOT NULL,
    position INTEGER NOT NULL,
    tenant   TEXT NOT NULL,
    node     TEXT NOT NULL,
    visit    INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    at       REAL NOT NULL,
    level    TEXT NOT NULL,
    message  BLOB NOT NULL,
    PRIMARY KEY (run_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE log_heads (
    run_id   TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_unended ON runs (tenant, workflow, workflow_version, run_id) WHERE ended_at IS NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;
