-- What a tenant may use, in all and of its workflows, in a day or a month (UTC). What is used is in the ledger; its rows of the day '' hold what is
-- set aside for calls under way.

CREATE TABLE budgets (
    tenant TEXT NOT NULL,
    scope  TEXT NOT NULL,
    usd    INTEGER,
    tokens INTEGER,
    calls  INTEGER,
    per    TEXT NOT NULL,
    share  REAL NOT NULL,
    PRIMARY KEY (tenant, scope)
) STRICT, WITHOUT ROWID;
