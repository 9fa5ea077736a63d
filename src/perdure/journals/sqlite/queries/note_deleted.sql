INSERT INTO deleted_workflows (tenant, name, last_version)
VALUES (:tenant, :workflow, :last_version)
ON CONFLICT (tenant, name) DO UPDATE SET last_version = max(last_version, excluded.last_version)
