-- Generations that are being recovered: while work that was enqueued up to `fed_at` waits, vectors are looked for in
-- snapshots too.
CREATE TABLE recovery (
    tenant text NOT NULL,
    generation integer NOT NULL,
    fed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, generation)
);
ALTER TABLE recovery ENABLE ROW LEVEL SECURITY;
ALTER TABLE recovery FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON recovery TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON recovery TO memory_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON recovery TO memory_app;
GRANT SELECT, DELETE ON recovery TO memory_worker;
