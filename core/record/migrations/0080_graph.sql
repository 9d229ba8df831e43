-- What memories say of things: who or what there is, and how it is related. An entity is named once; entity_name
-- holds every name it is known by, folded (core/model/graph.py), so that what is merged is found under its old names.
-- stated: a caller named it by hand, and it stays without any relation.
CREATE TABLE entity (
    tenant text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    folded text COLLATE "C" NOT NULL,
    name text NOT NULL,
    type text,
    stated boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
) PARTITION BY HASH (tenant);
CREATE INDEX entity_by_name ON entity (tenant, folded);

CREATE TABLE entity_name (
    tenant text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    entity uuid NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (tenant, folded)
) PARTITION BY HASH (tenant);
CREATE INDEX entity_name_of ON entity_name (tenant, entity, folded);

-- One row for each memory that supports a relation; an empty memory_id: a caller states it by hand. A relation is all
-- its rows whose memories are alive, its weight their sum. told: it came with the memory's own write, and is stated
-- anew by each; the others were added to the memory by a call, and stay until it changes.
CREATE TABLE relation (
    tenant text COLLATE "C" NOT NULL,
    source uuid NOT NULL,
    target uuid NOT NULL,
    type text COLLATE "C" NOT NULL,
    memory_id text NOT NULL,
    weight double precision NOT NULL CHECK (weight > 0),
    told boolean NOT NULL,
    PRIMARY KEY (tenant, source, target, type, memory_id),
    CHECK (source <> target)
) PARTITION BY HASH (tenant);
CREATE INDEX relation_back ON relation (tenant, target, source, type, memory_id);
CREATE INDEX relation_by_memory ON relation (tenant, memory_id);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['entity', 'entity_name', 'relation'] LOOP
        FOR part IN 0..7 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
                           name || '_' || part, name, part);
        END LOOP;
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO memory_app
            USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant())', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO memory_app', name);
    END LOOP;
END
$$;

-- Whoever only adds to a tenant's graph holds this shared, whoever takes something out or merges holds it alone; always
-- after the rows of memories, so that nobody waits in a circle.
CREATE FUNCTION graph_lock(of_tenant text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended('memory.graph:' || of_tenant, 0);

-- The rows of an entity's relations that are alive, up to `most` in each direction, in the order of their keys. The
-- memory is looked up row by row, whatever the statistics say.
CREATE FUNCTION graph_edges(of_tenant text, of_entity uuid, of_types text[], outward boolean, inward boolean, most integer)
RETURNS TABLE (other uuid, weight double precision, memory_id text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    (SELECT r.target, r.weight, r.memory_id FROM relation r
     WHERE outward AND r.tenant = of_tenant AND r.source = of_entity AND (of_types IS NULL OR r.type = ANY (of_types))
       AND (r.memory_id = '' OR (
           SELECT true FROM memory m WHERE m.tenant = of_tenant AND m.id = r.memory_id
             AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) LIMIT 1))
     ORDER BY r.target, r.type, r.memory_id LIMIT most)
    UNION ALL
    (SELECT r.source, r.weight, r.memory_id FROM relation r
     WHERE inward AND r.tenant = of_tenant AND r.target = of_entity AND (of_types IS NULL OR r.type = ANY (of_types))
       AND (r.memory_id = '' OR (
           SELECT true FROM memory m WHERE m.tenant = of_tenant AND m.id = r.memory_id
             AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) LIMIT 1))
     ORDER BY r.source, r.type, r.memory_id LIMIT most)
$$;

-- Forget those of these entities that nobody stated and no relation names. Only under the lock alone.
CREATE FUNCTION graph_prune(of_tenant text, ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    WITH bare AS MATERIALIZED (
        SELECT i.id
        FROM (SELECT DISTINCT u.id FROM unnest(ids) AS u (id)) AS i
        WHERE NOT (SELECT e.stated FROM entity e WHERE e.tenant = of_tenant AND e.id = i.id LIMIT 1)
          AND (SELECT true FROM relation r WHERE r.tenant = of_tenant AND r.source = i.id LIMIT 1) IS NULL
          AND (SELECT true FROM relation r WHERE r.tenant = of_tenant AND r.target = i.id LIMIT 1) IS NULL
    ), names AS (
        DELETE FROM entity_name WHERE tenant = of_tenant AND entity = ANY (ARRAY(SELECT id FROM bare))
    )
    DELETE FROM entity WHERE tenant = of_tenant AND id = ANY (ARRAY(SELECT id FROM bare));
END
$$;

-- Put entities, `firm` ones for good, and relations. Relation i leads from name froms[i] to name tos[i] and is supported by supporters[i]; what
-- comes to the same relation of the same memory is added up, what comes to a loop is left out. replaced: memories that
-- changed, which support nothing else from here on; restated: memories that did not, which lose what their last write
-- told and this one does not.
CREATE FUNCTION graph_put(
    of_tenant text, keys text[], names text[], types text[], firm boolean[], by_hand boolean, froms integer[],
    kinds text[], tos integer[], weights double precision[], supporters text[], with_write boolean, replaced text[], restated text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_mergejoin = off AS $$
DECLARE
    most CONSTANT double precision := 1e9;
    drops boolean;
    found uuid[];
    asked relation[];
    lost uuid[];
BEGIN
    drops := EXISTS (
        SELECT FROM unnest(replaced || restated) AS w (memory)
        CROSS JOIN LATERAL (
            SELECT FROM relation r WHERE r.tenant = of_tenant AND r.memory_id = w.memory LIMIT 1) AS there);
    IF drops THEN
        PERFORM pg_advisory_xact_lock(graph_lock(of_tenant));
    ELSIF cardinality(keys) = 0 THEN
        RETURN;
    ELSE
        PERFORM pg_advisory_xact_lock_shared(graph_lock(of_tenant));
    END IF;
    -- One look-up a name and a row, whatever the statistics say: in a bulk write they are always stale.
    INSERT INTO entity_name (tenant, folded, entity, name)
    SELECT of_tenant, g.folded, md5(length(of_tenant) || ':' || of_tenant || g.folded)::uuid, g.name
    FROM unnest(keys, names) AS g (folded, name)
    LEFT JOIN LATERAL (
        SELECT n.entity FROM entity_name n WHERE n.tenant = of_tenant AND n.folded = g.folded LIMIT 1) AS known ON true
    WHERE known.entity IS NULL
    ORDER BY g.folded
    ON CONFLICT DO NOTHING;
    SELECT coalesce(array_agg(known.entity ORDER BY g.number), '{}') INTO found
    FROM unnest(keys) WITH ORDINALITY AS g (folded, number)
    CROSS JOIN LATERAL (
        SELECT n.entity FROM entity_name n WHERE n.tenant = of_tenant AND n.folded = g.folded LIMIT 1) AS known;
    -- A type, once known, is changed by hand alone.
    INSERT INTO entity AS e (tenant, id, folded, name, type, stated)
    SELECT DISTINCT ON (g.entity) of_tenant, g.entity, g.folded, g.name, g.type, g.firm
    FROM unnest(found, keys, names, types, firm) AS g (entity, folded, name, type, firm)
    LEFT JOIN LATERAL (
        SELECT k.id, k.type, k.stated FROM entity k WHERE k.tenant = of_tenant AND k.id = g.entity LIMIT 1) AS o ON true
    WHERE o.id IS NULL OR (g.firm AND NOT o.stated)
       OR (g.type IS DISTINCT FROM o.type AND g.type IS NOT NULL AND (by_hand OR o.type IS NULL))
    ORDER BY g.entity, g.firm DESC, g.type NULLS LAST
    ON CONFLICT (tenant, id) DO UPDATE
    SET type = CASE WHEN by_hand THEN coalesce(excluded.type, e.type) ELSE coalesce(e.type, excluded.type) END,
        stated = e.stated OR excluded.stated;
    SELECT array_agg(ROW(of_tenant, a.source, a.target, a.kind, a.supporter, a.weight, with_write)::relation)
    INTO asked
    FROM (
        SELECT found[r.source] AS source, found[r.target] AS target, r.kind, r.supporter,
               least(sum(r.weight), most) AS weight
        FROM unnest(froms, kinds, tos, weights, supporters) AS r (source, kind, target, weight, supporter)
        WHERE found[r.source] <> found[r.target]
        GROUP BY found[r.source], found[r.target], r.kind, r.supporter
    ) AS a;
    IF drops THEN
        WITH doomed AS MATERIALIZED (
            SELECT o.place
            FROM unnest(replaced || restated) WITH ORDINALITY AS w (memory, number)
            CROSS JOIN LATERAL (
                SELECT r.ctid AS place, r.source, r.target, r.type FROM relation r
                WHERE r.tenant = of_tenant AND r.memory_id = w.memory
                  AND (r.told OR w.number <= cardinality(replaced))
                OFFSET 0) AS o
            WHERE NOT EXISTS (
                SELECT FROM unnest(asked) AS a
                WHERE (a.source, a.target, a.type, a.memory_id) = (o.source, o.target, o.type, w.memory))
        ), gone AS (
            -- By their places, which nobody changes while the lock is held; a tenant's rows stand in one partition.
            DELETE FROM relation WHERE tenant = of_tenant AND ctid = ANY (ARRAY(SELECT place FROM doomed))
            RETURNING source, target
        )
        SELECT array_agg(gone.source) || array_agg(gone.target) INTO lost FROM gone;
    END IF;
    INSERT INTO relation AS r
    SELECT a.tenant, a.source, a.target, a.type, a.memory_id, a.weight, a.told OR coalesce(o.told, false)
    FROM unnest(asked) AS a
    LEFT JOIN LATERAL (
        SELECT k.weight, k.told FROM relation k
        WHERE k.tenant = of_tenant AND k.source = a.source AND k.target = a.target AND k.type = a.type
          AND k.memory_id = a.memory_id
        LIMIT 1) AS o ON true
    WHERE o.weight IS DISTINCT FROM a.weight OR (a.told AND NOT o.told)
    ORDER BY a.source, a.target, a.type, a.memory_id
    ON CONFLICT (tenant, source, target, type, memory_id) DO UPDATE
    SET weight = excluded.weight, told = r.told OR excluded.told;
    IF drops THEN
        PERFORM graph_prune(of_tenant, lost);
    END IF;
END
$$;

-- Forget what memories support that are not there any more: deleted, or their rows gone. How many rows went.
CREATE FUNCTION graph_forget(of_tenant text, ids text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    lost uuid[];
    forgotten bigint;
BEGIN
    IF NOT EXISTS (
        SELECT FROM unnest(ids) AS i (id)
        CROSS JOIN LATERAL (SELECT FROM relation r WHERE r.tenant = of_tenant AND r.memory_id = i.id LIMIT 1) AS there)
    THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock(graph_lock(of_tenant));
    WITH dead AS MATERIALIZED (
        SELECT i.id FROM unnest(ids) AS i (id)
        WHERE i.id <> '' AND (
            SELECT true FROM memory m WHERE m.tenant = of_tenant AND m.id = i.id AND m.deleted_at IS NULL LIMIT 1) IS NULL
    ), gone AS (
        DELETE FROM relation WHERE tenant = of_tenant AND memory_id = ANY (ARRAY(SELECT id FROM dead))
        RETURNING source, target
    )
    SELECT count(*), array_agg(gone.source) || array_agg(gone.target) INTO forgotten, lost FROM gone;
    PERFORM graph_prune(of_tenant, lost);
    RETURN forgotten;
END
$$;

-- Take relations back that a memory supports (empty: that were stated by hand). How many rows went.
CREATE FUNCTION graph_withdraw(of_tenant text, froms text[], kinds text[], tos text[], supporter text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    lost uuid[];
    withdrawn bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(graph_lock(of_tenant));
    WITH asked AS MATERIALIZED (
        SELECT DISTINCT s.entity AS source, t.entity AS target, g.kind
        FROM unnest(froms, kinds, tos) AS g (source, kind, target)
        CROSS JOIN LATERAL (SELECT entity FROM entity_name WHERE tenant = of_tenant AND folded = g.source LIMIT 1) AS s
        CROSS JOIN LATERAL (SELECT entity FROM entity_name WHERE tenant = of_tenant AND folded = g.target LIMIT 1) AS t
    ), gone AS (
        DELETE FROM relation r USING asked a
        WHERE r.tenant = of_tenant AND r.source = a.source AND r.target = a.target AND r.type = a.kind
          AND r.memory_id = supporter
        RETURNING r.source, r.target
    )
    SELECT count(*), array_agg(gone.source) || array_agg(gone.target) INTO withdrawn, lost FROM gone;
    PERFORM graph_prune(of_tenant, lost);
    RETURN withdrawn;
END
$$;

-- Take back what was stated by hand of an entity: that it is there, and its relations. Whether it was stated.
CREATE FUNCTION graph_disown(of_tenant text, key text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    of_entity uuid;
    lost uuid[];
    was boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(graph_lock(of_tenant));
    SELECT n.entity, e.stated INTO of_entity, was
    FROM entity_name n JOIN entity e ON e.tenant = of_tenant AND e.id = n.entity
    WHERE n.tenant = of_tenant AND n.folded = key;
    IF of_entity IS NULL THEN
        RETURN false;
    END IF;
    UPDATE entity SET stated = false WHERE tenant = of_tenant AND id = of_entity AND stated;
    WITH gone AS (
        DELETE FROM relation WHERE tenant = of_tenant AND memory_id = '' AND (source = of_entity OR target = of_entity)
        RETURNING source, target
    )
    SELECT array_agg(gone.source) || array_agg(gone.target) || of_entity INTO lost FROM gone;
    PERFORM graph_prune(of_tenant, lost);
    RETURN was OR cardinality(lost) > 1;
END
$$;

-- Make entities one: all their names lead to the one that is kept, with their relations and what supports them; what
-- would lead from it to itself goes. A name nobody knows becomes one of its names. Names are looked up under the lock:
-- merged the other way round meanwhile, both are one already. How many became part of it; null: the one to keep is not there.
CREATE FUNCTION graph_merge(of_tenant text, keep_key text, keys text[], names text[]) RETURNS integer
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    most CONSTANT double precision := 1e9;
    kept uuid;
    others uuid[];
BEGIN
    PERFORM pg_advisory_xact_lock(graph_lock(of_tenant));
    SELECT n.entity INTO kept FROM entity_name n WHERE n.tenant = of_tenant AND n.folded = keep_key;
    IF kept IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(DISTINCT n.entity), '{}') INTO others
    FROM unnest(keys) AS g (folded)
    JOIN entity_name n ON n.tenant = of_tenant AND n.folded = g.folded
    WHERE n.entity <> kept;
    UPDATE entity_name SET entity = kept WHERE tenant = of_tenant AND entity = ANY (others);
    INSERT INTO entity_name (tenant, folded, entity, name)
    SELECT of_tenant, g.folded, kept, g.name FROM unnest(keys, names) AS g (folded, name)
    ON CONFLICT DO NOTHING;
    WITH merged AS (
        DELETE FROM entity WHERE tenant = of_tenant AND id = ANY (others) RETURNING type, stated, id
    )
    UPDATE entity e
    SET type = coalesce(e.type, m.type), stated = true
    FROM (SELECT (array_agg(merged.type ORDER BY merged.id) FILTER (WHERE merged.type IS NOT NULL))[1] AS type FROM merged) AS m
    WHERE e.tenant = of_tenant AND e.id = kept AND NOT (e.stated AND cardinality(others) = 0);
    WITH moved AS (
        DELETE FROM relation r
        WHERE r.tenant = of_tenant AND (r.source = ANY (others) OR r.target = ANY (others))
        RETURNING CASE WHEN r.source = ANY (others) THEN kept ELSE r.source END AS source,
                  CASE WHEN r.target = ANY (others) THEN kept ELSE r.target END AS target,
                  r.type, r.memory_id, r.weight, r.told
    )
    INSERT INTO relation AS r (tenant, source, target, type, memory_id, weight, told)
    SELECT of_tenant, moved.source, moved.target, moved.type, moved.memory_id, least(sum(moved.weight), most),
           bool_or(moved.told)
    FROM moved WHERE moved.source <> moved.target
    GROUP BY moved.source, moved.target, moved.type, moved.memory_id
    ON CONFLICT (tenant, source, target, type, memory_id) DO UPDATE
    SET weight = least(r.weight + excluded.weight, most), told = r.told OR excluded.told;
    RETURN cardinality(others);
END
$$;
