-- Who took a lock last. A lock outside of PostgreSQL can run out while its owner sleeps; the number it was
-- given here is then no longer the last one, and the owner's critical transaction finds that out.
CREATE TABLE fence (
    tenant text NOT NULL,
    name text NOT NULL,
    number bigint NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, name)
);
ALTER TABLE fence ENABLE ROW LEVEL SECURITY;
ALTER TABLE fence FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON fence TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
GRANT SELECT, INSERT, UPDATE ON fence TO memory_app;
