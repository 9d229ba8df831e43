-- One event a change, in the transaction of the change. xid says which transactions may still be
-- running: sequence order is not commit order, and a relay must not pass the oldest of them.
CREATE TABLE event (
    tenant text NOT NULL,
    seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    kind text NOT NULL CHECK (kind IN
        ('memory.created', 'memory.updated', 'memory.deleted', 'memory.archived', 'memory.restored')),
    memory_id text NOT NULL,
    version bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, seq)
);
ALTER TABLE event ENABLE ROW LEVEL SECURITY;
ALTER TABLE event FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON event TO memory_app
    USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());
CREATE POLICY every_tenant ON event FOR SELECT TO memory_worker USING (true);
GRANT SELECT, INSERT ON event TO memory_app;
GRANT SELECT ON event TO memory_worker;

-- Whatever changes a memory, its old version, its index work and its event follow in the same
-- transaction: here, so that no way in can forget one. Changes that leave the version alone (an
-- access time, a tier) are none of these.
CREATE FUNCTION memory_inserted() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    of_tenant text;
BEGIN
    FOR of_tenant IN SELECT DISTINCT tenant FROM written LOOP
        PERFORM enqueue(of_tenant, array_agg(id), 0::smallint) FROM written WHERE tenant = of_tenant;
    END LOOP;
    INSERT INTO event (tenant, kind, memory_id, version)
    SELECT tenant, 'memory.created', id, version FROM written ORDER BY id;
    RETURN NULL;
END
$$;

CREATE FUNCTION memory_updated() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    of_tenant text;
BEGIN
    INSERT INTO memory_version (tenant, id, version, record)
    SELECT b.tenant, b.id, b.version, to_jsonb(b)
    FROM before b JOIN written w ON w.tenant = b.tenant AND w.id = b.id AND w.version <> b.version;
    FOR of_tenant IN SELECT DISTINCT tenant FROM written LOOP
        PERFORM enqueue(of_tenant, array_agg(w.id), 0::smallint)
        FROM written w JOIN before b ON b.tenant = w.tenant AND b.id = w.id AND b.version <> w.version
        WHERE w.tenant = of_tenant
        HAVING count(*) > 0;
    END LOOP;
    INSERT INTO event (tenant, kind, memory_id, version)
    SELECT w.tenant,
           CASE WHEN w.deleted_at IS NOT NULL THEN 'memory.deleted'
                WHEN b.deleted_at IS NOT NULL THEN 'memory.created'
                WHEN w.tier = 'archive' AND b.tier <> 'archive' THEN 'memory.archived'
                WHEN w.tier <> 'archive' AND b.tier = 'archive' THEN 'memory.restored'
                ELSE 'memory.updated' END,
           w.id, w.version
    FROM written w JOIN before b ON b.tenant = w.tenant AND b.id = w.id AND b.version <> w.version
    ORDER BY w.id;
    RETURN NULL;
END
$$;

CREATE TRIGGER memory_inserted AFTER INSERT ON memory
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION memory_inserted();
CREATE TRIGGER memory_updated AFTER UPDATE ON memory
    REFERENCING OLD TABLE AS before NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION memory_updated();
