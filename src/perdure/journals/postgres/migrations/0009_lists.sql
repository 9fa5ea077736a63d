-- Lists by version, by the time of the end, by error and by the beginning of an id have an index each, led by the tenant as the others are.

CREATE INDEX runs_by_tenant_state ON perdure.runs (tenant, state, created_at, run_id);
CREATE INDEX runs_by_tenant_workflow ON perdure.runs (tenant, workflow, created_at, run_id);
CREATE INDEX runs_by_tenant_end ON perdure.runs (tenant, ended_at, run_id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_by_tenant_error ON perdure.runs (tenant, created_at, run_id) WHERE error IS NOT NULL;
CREATE INDEX runs_by_tenant_id ON perdure.runs (tenant, run_id);
