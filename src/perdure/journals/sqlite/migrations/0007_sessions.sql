-- Sessions of browsers: of the cookie there is only the hash.

CREATE TABLE sessions (
    token_hash BLOB PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    roles      TEXT NOT NULL,
    agent      BLOB NOT NULL,
    created_at REAL NOT NULL,
    seen_at    REAL NOT NULL,
    expires_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_owner ON sessions (tenant, owner, created_at, session_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);
