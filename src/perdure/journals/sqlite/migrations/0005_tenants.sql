-- Lists of one tenant lead with it: they cost what the tenant has, not what all have together.

CREATE INDEX runs_by_tenant ON runs (tenant, created_at);
CREATE INDEX runs_by_tenant_state ON runs (tenant, state, created_at);
CREATE INDEX runs_by_tenant_workflow ON runs (tenant, workflow, created_at);
