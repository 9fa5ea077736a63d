-- What agents leave for later runs: turns and notes of sessions, pipelines that they ran, tools of the registry. Rows of runs are written in
-- the transaction of the append that completes the agent, once for each place.

CREATE TABLE agent_entries (
    tenant TEXT NOT NULL,
    space  TEXT NOT NULL,
    name   TEXT NOT NULL,
    place  TEXT NOT NULL,
    owner  TEXT NOT NULL,
    run_id TEXT NOT NULL,
    at     REAL NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (tenant, space, name, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_entries_by_age ON agent_entries (space, at);
