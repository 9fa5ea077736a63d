-- Lists by tag of one tenant lead with it, as its other lists do. Processes of earlier versions call the same function.

ALTER TABLE perdure.run_tags ADD COLUMN tenant text COLLATE "C";

CREATE OR REPLACE FUNCTION perdure.append_tags(
    accepted boolean[], commits integer[], run_ids text[], names bytea[], tag_values bytea[], creations double precision[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.run_tags (name, value, created_at, run_id, tenant)
    SELECT t.name, t.value, t.created_at, t.run_id, (SELECT r.tenant FROM perdure.runs r WHERE r.run_id = t.run_id)
    FROM unnest(commits, run_ids, names, tag_values, creations) AS t (commit, run_id, name, value, created_at)
    WHERE accepted[t.commit];
END $$;

UPDATE perdure.run_tags t SET tenant = r.tenant FROM perdure.runs r WHERE r.run_id = t.run_id;

CREATE INDEX run_tags_by_tenant ON perdure.run_tags (tenant, name, value, created_at, run_id);
