INSERT INTO runs (run_id, seq, commit_id, state, workflow, workflow_version, ir, partition, tenant, tags,
                  generation, counter, busy, created_at, started_at, ended_at, error, parent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
