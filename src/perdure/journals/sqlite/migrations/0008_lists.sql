-- Lists by version, by the time of the end, by error and by the beginning of an id have an index each, led by the tenant as the others are.

CREATE INDEX runs_by_tenant_end ON runs (tenant, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_by_tenant_error ON runs (tenant, created_at) WHERE error IS NOT NULL;
CREATE INDEX runs_by_tenant_id ON runs (tenant, run_id);
