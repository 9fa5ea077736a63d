-- Filters of lists that people keep under a name: their own, or those of their tenant (no owner).

CREATE TABLE perdure.saved_views (
    tenant     text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    query      text COLLATE "C" NOT NULL,
    saved_by   text COLLATE "C" NOT NULL,
    saved_at   double precision NOT NULL,
    PRIMARY KEY (tenant, owner, name)
);
