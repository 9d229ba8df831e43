-- Generations, and the work that brings each in step with the record.
CREATE TABLE generation (
    tenant text NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    index_group text NOT NULL,
    space jsonb NOT NULL,
    fingerprint text NOT NULL,
    state text NOT NULL
        CHECK (state IN ('building', 'verified', 'live', 'retiring', 'dropped', 'aborted')),
    registered_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- When work of it was last claimed: the order in which tenants take turns.
    served_at timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (tenant, number)
);
CREATE UNIQUE INDEX generation_one_building ON generation (tenant) WHERE state IN ('building', 'verified');
CREATE UNIQUE INDEX generation_one_live ON generation (tenant) WHERE state = 'live';

-- One row per (generation, memory), however often the memory changes before it is worked on. seq
-- rises with every enqueue and never falls; the row goes when seq is still what was claimed.
-- attempts: claims that ended without a word (the worker died). failures: orderly ends without success.
CREATE TABLE outbox (
    tenant text NOT NULL,
    generation integer NOT NULL,
    memory_id text NOT NULL,
    seq bigint NOT NULL DEFAULT 1,
    lane smallint NOT NULL,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    ready_at timestamptz NOT NULL DEFAULT now(),
    attempts smallint NOT NULL DEFAULT 0,
    failures smallint NOT NULL DEFAULT 0,
    lease_owner uuid,
    lease_until timestamptz,
    claimed_seq bigint,
    set_aside_at timestamptz,
    reason text,
    PRIMARY KEY (tenant, generation, memory_id)
) PARTITION BY HASH (tenant);

DO $$
BEGIN
    FOR part IN 0..7 LOOP
        -- The table is a queue: rows come and go, so it is vacuumed early and pages keep room for updates.
        EXECUTE format(
            'CREATE TABLE outbox_%s PARTITION OF outbox FOR VALUES WITH (MODULUS 8, REMAINDER %s)
             WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)', part, part);
    END LOOP;
END
$$;
CREATE INDEX outbox_by_turn ON outbox (tenant, generation, lane, ready_at) WHERE set_aside_at IS NULL;
CREATE INDEX outbox_set_aside ON outbox (tenant, set_aside_at) WHERE set_aside_at IS NOT NULL;

ALTER TABLE generation ENABLE ROW LEVEL SECURITY;
ALTER TABLE generation FORCE ROW LEVEL SECURITY;
ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON generation TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY own_tenant ON outbox TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON generation TO memory_worker USING (true) WITH CHECK (true);
CREATE POLICY every_tenant ON outbox TO memory_worker USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE ON generation TO memory_app;
GRANT SELECT, UPDATE (served_at) ON generation TO memory_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO memory_app;
GRANT SELECT, UPDATE ON outbox TO memory_worker;

-- Key of the registration barrier of a tenant: writers hold it shared, registering holds it exclusively.
CREATE FUNCTION generations_lock(of_tenant text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended('memory.generations:' || of_tenant, 0);

-- Enqueue memories for every generation of a tenant that is not dropped. Lock first, list in the next
-- statement: under READ COMMITTED that statement sees every generation registered before the lock came.
CREATE FUNCTION enqueue(of_tenant text, ids text[], into_lane smallint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(generations_lock(of_tenant));
    INSERT INTO outbox AS o (tenant, generation, memory_id, lane)
    SELECT of_tenant, g.number, i.id, into_lane
    FROM generation g CROSS JOIN unnest(ids) AS i (id)
    WHERE g.tenant = of_tenant AND g.state <> 'dropped'
    ORDER BY g.number, i.id
    ON CONFLICT (tenant, generation, memory_id) DO UPDATE
    SET seq = o.seq + 1,
        lane = least(o.lane, excluded.lane),
        enqueued_at = CASE WHEN o.set_aside_at IS NULL THEN o.enqueued_at ELSE now() END,
        ready_at = now(), attempts = 0, failures = 0, set_aside_at = NULL, reason = NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tenant has no generation yet' USING ERRCODE = 'ME001';
    END IF;
END
$$;
