-- A reindex as the record knows it: who runs it, what the gate said, and what is left to feed to the outbox.
-- runner, runner_until: the lease of the run that drives a generation that is being built.
-- retire_at: when a retiring or aborted generation may be dropped. dropping_at: a drop of it has begun.
-- tokens_before: tokens its model had taken for the tenant when it was registered; what it costs is counted from there.
ALTER TABLE generation
    ADD COLUMN runner uuid,
    ADD COLUMN runner_until timestamptz,
    ADD COLUMN verdict jsonb,
    ADD COLUMN reason text,
    ADD COLUMN retire_at timestamptz,
    ADD COLUMN dropping_at timestamptz,
    ADD COLUMN tokens_before bigint NOT NULL DEFAULT 0;

-- Stretches of the tenant's ids, each fed to the outbox by whoever holds its row. Keys are after `after_id`
-- (null: from the first) up to and with `last_id` (null: to the end); all up to `cursor_id` are fed.
CREATE TABLE backfill_range (
    tenant text NOT NULL,
    generation integer NOT NULL,
    number integer NOT NULL,
    after_id text,
    last_id text,
    cursor_id text,
    fed bigint NOT NULL DEFAULT 0,
    done_at timestamptz,
    PRIMARY KEY (tenant, generation, number),
    FOREIGN KEY (tenant, generation) REFERENCES generation (tenant, number)
);

-- What a swap was going to do, and what came of it. One open intent a tenant is the lock.
CREATE TABLE swap_intent (
    tenant text NOT NULL,
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    from_generation integer NOT NULL,
    to_generation integer NOT NULL,
    grace interval NOT NULL,
    owner uuid NOT NULL,
    lease_until timestamptz NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    outcome text CHECK (outcome IN ('swapped', 'given up')),
    PRIMARY KEY (tenant, number)
);
CREATE UNIQUE INDEX swap_one_open ON swap_intent (tenant) WHERE ended_at IS NULL;

ALTER TABLE backfill_range ENABLE ROW LEVEL SECURITY;
ALTER TABLE backfill_range FORCE ROW LEVEL SECURITY;
ALTER TABLE swap_intent ENABLE ROW LEVEL SECURITY;
ALTER TABLE swap_intent FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON backfill_range TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY own_tenant ON swap_intent TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON backfill_range FOR SELECT TO memory_worker USING (true);
CREATE POLICY every_tenant ON swap_intent FOR SELECT TO memory_worker USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON backfill_range TO memory_app;
GRANT SELECT, INSERT, UPDATE ON swap_intent TO memory_app;
GRANT SELECT (tenant, generation, number, fed, done_at) ON backfill_range TO memory_worker;
GRANT SELECT ON swap_intent TO memory_worker;
