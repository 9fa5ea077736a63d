-- How many events a tenant has, and which of them are the oldest.

CREATE INDEX occurrences_by_tenant ON occurrences (tenant, position);
