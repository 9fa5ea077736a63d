-- Sessions of browsers: of the cookie there is only the hash.

CREATE TABLE perdure.sessions (
    token_hash bytea PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL UNIQUE,
    tenant     text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    key_id     text COLLATE "C" NOT NULL,
    roles      text COLLATE "C" NOT NULL,
    agent      bytea NOT NULL,
    created_at double precision NOT NULL,
    seen_at    double precision NOT NULL,
    expires_at double precision NOT NULL
);

CREATE INDEX sessions_by_owner ON perdure.sessions (tenant, owner, created_at, session_id);
CREATE INDEX sessions_by_expiry ON perdure.sessions (expires_at);
