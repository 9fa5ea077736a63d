INSERT INTO alias_moves (tenant, workflow, alias, revision, shares, moved_by, moved_at, reason)
VALUES (:tenant, :workflow, :alias, :revision, :shares, :moved_by, :moved_at, :reason)
