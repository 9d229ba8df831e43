-- What embedding took, per tenant, day and model: what was asked of the provider, and what reuse spared.
CREATE TABLE embedding_use (
    tenant text NOT NULL,
    day date NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')::date,
    provider text NOT NULL,
    model text NOT NULL,
    requests bigint NOT NULL DEFAULT 0,
    texts bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    reused_texts bigint NOT NULL DEFAULT 0,
    reused_tokens bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, day, provider, model)
);
CREATE INDEX embedding_use_by_day ON embedding_use (day);
ALTER TABLE embedding_use ENABLE ROW LEVEL SECURITY;
ALTER TABLE embedding_use FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON embedding_use TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON embedding_use FOR SELECT TO memory_worker USING (true);
GRANT SELECT, INSERT, UPDATE ON embedding_use TO memory_app;
GRANT SELECT ON embedding_use TO memory_worker;
