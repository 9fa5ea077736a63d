-- What agents leave for later runs: turns and notes of sessions, pipelines that they ran, tools of the registry. Rows of runs are written in
-- the transaction of the append that completes the agent, once for each place, and in the order of their keys.

CREATE TABLE perdure.agent_entries (
    tenant text COLLATE "C" NOT NULL,
    space  text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    place  text COLLATE "C" NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    at     double precision NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (tenant, space, name, place)
);
CREATE INDEX agent_entries_by_age ON perdure.agent_entries (space, at);

CREATE FUNCTION perdure.write_agent_entries(
    accepted boolean[], commits integer[], tenants text[], spaces text[], names text[], places text[], owners text[],
    run_ids text[], times double precision[], bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.agent_entries (tenant, space, name, place, owner, run_id, at, body)
    SELECT u.tenant, u.space, u.name, u.place, u.owner, u.run_id, u.at, u.body
    FROM unnest(commits, tenants, spaces, names, places, owners, run_ids, times, bodies)
        AS u (commit, tenant, space, name, place, owner, run_id, at, body)
    WHERE accepted[u.commit]
    ORDER BY u.tenant COLLATE "C", u.space COLLATE "C", u.name COLLATE "C", u.place COLLATE "C"
    ON CONFLICT (tenant, space, name, place) DO NOTHING;
END $$;
