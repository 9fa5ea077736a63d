-- Filters of lists that people keep under a name: their own, or those of their tenant (no owner).

CREATE TABLE saved_views (
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    query      TEXT NOT NULL,
    saved_by   TEXT NOT NULL,
    saved_at   REAL NOT NULL,
    PRIMARY KEY (tenant, owner, name)
) STRICT, WITHOUT ROWID;
