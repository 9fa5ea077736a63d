-- Idempotency keys outlive their runs (PROTOCOL 11): when a run is deleted, its keys say when it had ended.

CREATE TABLE kept_keys (
    tenant     TEXT NOT NULL,
    key        TEXT NOT NULL,
    body_hash  TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    created_at REAL NOT NULL,
    ended_at   REAL,  -- null while the run is there
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

INSERT INTO kept_keys (tenant, key, body_hash, run_id, created_at)
SELECT tenant, key, body_hash, run_id, created_at FROM idempotency;

DROP TABLE idempotency;
ALTER TABLE kept_keys RENAME TO idempotency;

CREATE INDEX idempotency_by_run ON idempotency (run_id);
CREATE INDEX idempotency_left ON idempotency (ended_at) WHERE ended_at IS NOT NULL;
