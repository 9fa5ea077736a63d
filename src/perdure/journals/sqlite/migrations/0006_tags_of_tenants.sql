-- Lists by tag of one tenant lead with it, as its other lists do.

ALTER TABLE run_tags ADD COLUMN tenant TEXT;

UPDATE run_tags SET tenant = (SELECT tenant FROM runs WHERE runs.run_key = run_tags.run_key);

CREATE INDEX run_tags_by_tenant ON run_tags (tenant, name, value, created_at, run_key);

-- For a process of an earlier version that had the file open when it was migrated.
CREATE TRIGGER run_tags_have_a_tenant AFTER INSERT ON run_tags WHEN NEW.tenant IS NULL
BEGIN
    UPDATE run_tags
    SET tenant = (SELECT tenant FROM runs WHERE runs.run_key = NEW.run_key)
    WHERE name = NEW.name AND value = NEW.value AND created_at = NEW.created_at AND run_key = NEW.run_key;
END;
