-- What was used, by tenant, day (UTC), workflow and model. Rows change in the transaction of the append that brings what was used (B2).

CREATE TABLE ledger (
    tenant          TEXT NOT NULL,
    day             TEXT NOT NULL,
    workflow        TEXT NOT NULL,
    model           TEXT NOT NULL,
    input           INTEGER NOT NULL,
    cached          INTEGER NOT NULL,
    written         INTEGER NOT NULL,
    output          INTEGER NOT NULL,
    reasoning       INTEGER NOT NULL,
    calls           INTEGER NOT NULL,
    usd             INTEGER NOT NULL,
    unpriced        INTEGER NOT NULL,
    unsettled_calls INTEGER NOT NULL,
    unsettled_usd   INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, workflow, model)
) STRICT, WITHOUT ROWID;
