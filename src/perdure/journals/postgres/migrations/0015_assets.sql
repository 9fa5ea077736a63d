-- Files that outlive their run, in versions. One that was deleted keeps its number, so that no other is given it.

CREATE TABLE perdure.assets (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    ref        text COLLATE "C" NOT NULL,
    media_type text COLLATE "C" NOT NULL,
    file_name  text COLLATE "C" NOT NULL,
    size       bigint NOT NULL,
    preview    text COLLATE "C" NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    node       text COLLATE "C" NOT NULL,
    kept_by    text COLLATE "C" NOT NULL,
    kept_at    double precision NOT NULL,
    deleted_at double precision,
    PRIMARY KEY (tenant, name, version)
);
