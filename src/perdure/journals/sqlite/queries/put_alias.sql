INSERT INTO aliases (tenant, workflow, alias, revision, present)
VALUES (:tenant, :workflow, :alias, :revision, TRUE)
ON CONFLICT (tenant, workflow, alias) DO UPDATE SET revision = excluded.revision, present = TRUE
