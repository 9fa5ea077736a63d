-- What happened and has a topic: events that were sent, and ends of runs that somebody waits for. Whoever has subscribed reads behind the position
-- that it has got to. One process writes at a time, so positions become visible in their order.

CREATE TABLE occurrences (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT NOT NULL,
    topic    TEXT NOT NULL,
    key      TEXT NOT NULL,
    id       TEXT NOT NULL,
    at       REAL NOT NULL,
    body     BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX occurrences_by_id ON occurrences (tenant, topic, id);
CREATE INDEX occurrences_by_topic ON occurrences (tenant, topic, position);
CREATE INDEX occurrences_by_key ON occurrences (tenant, topic, key, position);
CREATE INDEX occurrences_by_age ON occurrences (at);

CREATE TABLE subscriptions (
    tenant    TEXT NOT NULL,
    topic     TEXT NOT NULL,
    key       TEXT NOT NULL,
    run_id    TEXT NOT NULL,
    place     TEXT NOT NULL,
    since     INTEGER NOT NULL,
    since_at  REAL,
    partition INTEGER NOT NULL,
    PRIMARY KEY (place)
) STRICT, WITHOUT ROWID;

CREATE INDEX subscriptions_by_topic ON subscriptions (tenant, topic, key, place);
CREATE INDEX subscriptions_by_run ON subscriptions (run_id, place);
CREATE INDEX subscriptions_reading ON subscriptions (tenant, topic, since) WHERE since_at IS NULL;
