-- Data keys of a tenant, each wrapped by a master key that is not kept here. One is in use for new seals; the others
-- open what was sealed before. A row that is gone takes all with it that was sealed under its key.
CREATE TABLE data_key (
    tenant text NOT NULL,
    id text NOT NULL,
    wrapped bytea NOT NULL,
    master text NOT NULL,
    in_use boolean NOT NULL DEFAULT true,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX data_key_in_use ON data_key (tenant) WHERE in_use;
ALTER TABLE data_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE data_key FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON data_key TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON data_key FOR SELECT TO memory_worker USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON data_key TO memory_app;
GRANT SELECT (tenant, id, master, in_use, made_at) ON data_key TO memory_worker;

CREATE INDEX memory_by_key ON memory (tenant, key_id, id) WHERE key_id IS NOT NULL;
