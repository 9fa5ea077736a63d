-- What a tenant may use, in all and of its workflows, in a day or a month (UTC). What is used is in the ledger; its rows of the day '' hold what is
-- set aside for calls under way.

CREATE TABLE perdure.budgets (
    tenant text COLLATE "C" NOT NULL,
    scope  text COLLATE "C" NOT NULL,
    usd    bigint,
    tokens bigint,
    calls  bigint,
    per    text NOT NULL,
    share  double precision NOT NULL,
    PRIMARY KEY (tenant, scope)
);
