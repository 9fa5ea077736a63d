-- Files that outlive their run, in versions. One that was deleted keeps its number, so that no other is given it.

CREATE TABLE assets (
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    ref        TEXT NOT NULL,
    media_type TEXT NOT NULL,
    file_name  TEXT NOT NULL,
    size       INTEGER NOT NULL,
    preview    TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    node       TEXT NOT NULL,
    kept_by    TEXT NOT NULL,
    kept_at    REAL NOT NULL,
    deleted_at REAL,
    PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;
