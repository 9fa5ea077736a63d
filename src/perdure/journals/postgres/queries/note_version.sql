INSERT INTO perdure.version_notes (tenant, workflow, version, noted_by, noted_at, reason)
VALUES (:tenant, :workflow, :version, :noted_by, :noted_at, :reason)
ON CONFLICT (tenant, workflow, version) DO NOTHING
