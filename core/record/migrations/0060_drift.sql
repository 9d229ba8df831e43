-- What an index should hold, as figures: per tenant and stretch of point ids (their first byte) how many points, and
-- the sum of a hash of (point, version), which is the same in whatever order. Each statement that changes memories
-- adds a row of differences, so that no writer waits for another; they are folded into the base now and then. Base and
-- differences read in one statement are exact.
CREATE FUNCTION point_stretch(point uuid) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN get_byte(uuid_send(point), 0)::smallint;

CREATE TABLE point_digest (
    tenant text NOT NULL,
    stretch smallint NOT NULL,
    points bigint NOT NULL,
    digest numeric NOT NULL,
    PRIMARY KEY (tenant, stretch)
);
CREATE TABLE point_digest_delta (
    tenant text NOT NULL,
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    stretch smallint NOT NULL,
    points bigint NOT NULL,
    digest numeric NOT NULL,
    PRIMARY KEY (tenant, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

ALTER TABLE point_digest ENABLE ROW LEVEL SECURITY;
ALTER TABLE point_digest FORCE ROW LEVEL SECURITY;
ALTER TABLE point_digest_delta ENABLE ROW LEVEL SECURITY;
ALTER TABLE point_digest_delta FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON point_digest TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY own_tenant ON point_digest_delta TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON point_digest TO memory_worker USING (true) WITH CHECK (true);
CREATE POLICY every_tenant ON point_digest_delta TO memory_worker USING (true) WITH CHECK (true);
GRANT SELECT ON point_digest TO memory_app;
GRANT SELECT, INSERT ON point_digest_delta TO memory_app;
GRANT SELECT, INSERT, UPDATE ON point_digest TO memory_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON point_digest_delta TO memory_worker;

CREATE FUNCTION memory_digest_inserted() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO point_digest_delta (tenant, stretch, points, digest)
    SELECT tenant, point_stretch(embedding_id), count(*), sum(uuid_hash_extended(embedding_id, version))
    FROM written WHERE deleted_at IS NULL AND tier <> 'archive'
    GROUP BY tenant, point_stretch(embedding_id);
    RETURN NULL;
END
$$;
CREATE FUNCTION memory_digest_updated() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO point_digest_delta (tenant, stretch, points, digest)
    SELECT tenant, point_stretch(embedding_id), sum(sign), sum(sign * uuid_hash_extended(embedding_id, version)::numeric)
    FROM (
        SELECT tenant, embedding_id, version, 1 AS sign FROM written WHERE deleted_at IS NULL AND tier <> 'archive'
        UNION ALL
        SELECT tenant, embedding_id, version, -1 FROM before WHERE deleted_at IS NULL AND tier <> 'archive'
    ) AS changed
    GROUP BY tenant, point_stretch(embedding_id)
    HAVING sum(sign) <> 0 OR sum(sign * uuid_hash_extended(embedding_id, version)::numeric) <> 0;
    RETURN NULL;
END
$$;
CREATE FUNCTION memory_digest_deleted() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO point_digest_delta (tenant, stretch, points, digest)
    SELECT tenant, point_stretch(embedding_id), -count(*), -sum(uuid_hash_extended(embedding_id, version))
    FROM before WHERE deleted_at IS NULL AND tier <> 'archive'
    GROUP BY tenant, point_stretch(embedding_id);
    RETURN NULL;
END
$$;
-- Each waits for the writers there are and keeps new ones out until this migration ends: nothing is counted twice
-- or forgotten between the triggers and the first count.
CREATE TRIGGER memory_digest_inserted AFTER INSERT ON memory
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION memory_digest_inserted();
CREATE TRIGGER memory_digest_updated AFTER UPDATE ON memory
    REFERENCING OLD TABLE AS before NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION memory_digest_updated();
CREATE TRIGGER memory_digest_deleted AFTER DELETE ON memory
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION memory_digest_deleted();
-- Whoever migrates owns the table, and its policies hold for the owner too: none lets the owner through.
ALTER TABLE memory NO FORCE ROW LEVEL SECURITY;
ALTER TABLE point_digest NO FORCE ROW LEVEL SECURITY;
INSERT INTO point_digest (tenant, stretch, points, digest)
SELECT tenant, point_stretch(embedding_id), count(*), sum(uuid_hash_extended(embedding_id, version))
FROM memory WHERE deleted_at IS NULL AND tier <> 'archive'
GROUP BY tenant, point_stretch(embedding_id);
ALTER TABLE memory FORCE ROW LEVEL SECURITY;
ALTER TABLE point_digest FORCE ROW LEVEL SECURITY;

-- Points the record does not want, or cannot overwrite, with the version seen: taken out of the index once they have
-- been found so for the minimum age, and only if they still are.
CREATE TABLE orphan (
    tenant text NOT NULL,
    generation integer NOT NULL,
    point uuid NOT NULL,
    version bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('orphan', 'ahead', 'vector')),
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, generation, point)
);

-- How each store of a tenant stood when it was last looked at. generation 0: it is of no generation.
-- counted_at: its numbers agreed. clean_at: all of it was compared and agreed. found_at: something was wrong.
CREATE TABLE drift_state (
    tenant text NOT NULL,
    store text NOT NULL,
    generation integer NOT NULL DEFAULT 0,
    looked_at timestamptz NOT NULL,
    verdict text NOT NULL,
    points bigint,
    counted_at timestamptz,
    clean_at timestamptz,
    found_at timestamptz,
    unsettled_since timestamptz,
    PRIMARY KEY (tenant, store, generation)
);

CREATE TABLE drift_report (
    tenant text NOT NULL,
    id uuid NOT NULL,
    store text NOT NULL,
    generation integer NOT NULL DEFAULT 0,
    depth text NOT NULL,
    verdict text NOT NULL,
    records bigint,
    points bigint,
    findings jsonb NOT NULL,
    note text,
    dry boolean NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
);
CREATE INDEX drift_report_by_time ON drift_report (tenant, at DESC);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['orphan', 'drift_state', 'drift_report'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO memory_app
            USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant())', name);
        EXECUTE format('CREATE POLICY every_tenant ON %I FOR SELECT TO memory_worker USING (true)', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO memory_app', name);
        EXECUTE format('GRANT SELECT ON %I TO memory_worker', name);
    END LOOP;
END
$$;

-- A recovery writes points that no outbox entry tells of: until then nobody else judges the generation.
ALTER TABLE recovery ADD COLUMN running_until timestamptz;
