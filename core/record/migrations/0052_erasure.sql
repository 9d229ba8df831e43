-- Erasures that were asked for. What was asked is kept as a keyed hash: it may name the person. The items are what
-- an erasure has to be sure of; they stay, as tombstones do, so that it can be run again and confirm.
CREATE TABLE erasure (
    tenant text NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('id', 'session', 'subject', 'all')),
    asked text NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT now(),
    -- Until then a worker that read before, or a put that was announced, may still bring something back.
    pending_until timestamptz NOT NULL DEFAULT now(),
    confirmed_at timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX erasure_by_asked ON erasure (tenant, asked);
CREATE TABLE erasure_item (
    tenant text NOT NULL,
    erasure uuid NOT NULL,
    memory_id text NOT NULL,
    embedding_id uuid NOT NULL,
    -- The newest version it comes to: what is written under the id afterwards is another matter.
    version bigint NOT NULL,
    PRIMARY KEY (tenant, erasure, memory_id)
);
ALTER TABLE erasure ENABLE ROW LEVEL SECURITY;
ALTER TABLE erasure FORCE ROW LEVEL SECURITY;
ALTER TABLE erasure_item ENABLE ROW LEVEL SECURITY;
ALTER TABLE erasure_item FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON erasure TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY own_tenant ON erasure_item TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON erasure, erasure_item TO memory_app;
GRANT DELETE ON embedding_use TO memory_app;
