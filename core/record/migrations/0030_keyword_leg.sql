-- What stands together: the turns of a session, the chunks of a note. Null: neither.
CREATE FUNCTION thread_of(session text, scope text, path text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN session IS NOT NULL THEN md5('session:' || session)::uuid
            WHEN path IS NOT NULL THEN md5('note:' || md5(scope) || path)::uuid END;

-- place: the order inside a thread, the caller's position or counted.
ALTER TABLE memory
    ADD COLUMN thread uuid GENERATED ALWAYS AS (thread_of(session, scope, source ->> 'path')) STORED,
    ADD COLUMN place bigint;
CREATE INDEX memory_by_thread ON memory (tenant, thread, place, id) WHERE thread IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX memory_without_place ON memory (tenant, thread) WHERE thread IS NOT NULL AND place IS NULL;

-- The keyword leg, forwards: which terms a memory is found by. Made in the application (core/model/terms.py);
-- edition says by which rules. A memory that belongs to no thread has the thread of zeros.
CREATE TABLE keyword (
    tenant text COLLATE "C" NOT NULL,
    point uuid NOT NULL,
    edition smallint NOT NULL,
    thread uuid NOT NULL,
    length integer NOT NULL,
    terms text[] COLLATE "C" NOT NULL,
    counts smallint[] NOT NULL,
    PRIMARY KEY (tenant, point)
) PARTITION BY HASH (tenant);

-- And backwards. All a query reads is in the key: equality is leakproof, so under row-level security too it is
-- answered from the index alone.
CREATE TABLE posting (
    tenant text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    thread uuid NOT NULL,
    point uuid NOT NULL,
    count smallint NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (tenant, term, thread, point) INCLUDE (count, length)
) PARTITION BY HASH (tenant);

-- How many memories and words a thread has.
CREATE TABLE keyword_thread (
    tenant text COLLATE "C" NOT NULL,
    thread uuid NOT NULL,
    memories integer NOT NULL,
    length bigint NOT NULL,
    PRIMARY KEY (tenant, thread)
) PARTITION BY HASH (tenant);

-- And a tenant, in sixteen shares, so that writers do not wait for one row.
CREATE TABLE keyword_total (
    tenant text COLLATE "C" NOT NULL,
    share smallint NOT NULL,
    memories bigint NOT NULL,
    length bigint NOT NULL,
    threads bigint NOT NULL,
    threaded_length bigint NOT NULL,
    PRIMARY KEY (tenant, share)
) WITH (fillfactor = 50);

DO $$
BEGIN
    FOR part IN 0..7 LOOP
        EXECUTE format('CREATE TABLE keyword_%s PARTITION OF keyword FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
        -- Vacuumed early: an index-only scan reads the table for every page that vacuum has not seen.
        EXECUTE format(
            'CREATE TABLE posting_%s PARTITION OF posting FOR VALUES WITH (MODULUS 8, REMAINDER %s)
             WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)', part, part);
        EXECUTE format(
            'CREATE TABLE keyword_thread_%s PARTITION OF keyword_thread FOR VALUES WITH (MODULUS 8, REMAINDER %s)
             WITH (fillfactor = 70)', part, part);
    END LOOP;
END
$$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['keyword', 'posting', 'keyword_thread', 'keyword_total'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO memory_app
            USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant())', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO memory_app', name);
    END LOOP;
END
$$;
-- The worker sees how many memories have their terms, and no term.
CREATE POLICY every_tenant ON keyword_total FOR SELECT TO memory_worker USING (true);
GRANT SELECT ON keyword_total TO memory_worker;

-- Take `sign` times the memories and words of these threads into the counts. Threads in the order of their ids,
-- then one share: always after the memories' own rows, so that nobody waits in a circle.
CREATE FUNCTION keyword_count(of_tenant text, threads uuid[], lengths integer[], sign integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    nowhere CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    changed bigint;
BEGIN
    IF coalesce(cardinality(threads), 0) = 0 THEN
        RETURN;
    END IF;
    WITH given AS (
        SELECT g.thread, sign * count(*) AS memories, sign * sum(g.length) AS length
        FROM unnest(threads, lengths) AS g (thread, length)
        WHERE g.thread <> nowhere
        GROUP BY g.thread
    ), counted AS (
        INSERT INTO keyword_thread AS k (tenant, thread, memories, length)
        SELECT of_tenant, given.thread, given.memories, given.length FROM given ORDER BY given.thread
        ON CONFLICT (tenant, thread) DO UPDATE
        SET memories = k.memories + excluded.memories, length = k.length + excluded.length
        RETURNING k.thread, k.memories
    )
    -- A thread that now has just what was given has only begun.
    SELECT count(*) FILTER (WHERE sign > 0 AND counted.memories = given.memories) INTO changed
    FROM counted JOIN given USING (thread);
    IF sign < 0 THEN
        WITH emptied AS (
            DELETE FROM keyword_thread
            WHERE tenant = of_tenant AND thread = ANY (threads) AND memories <= 0
            RETURNING 1
        )
        SELECT changed - count(*) INTO changed FROM emptied;
    END IF;
    INSERT INTO keyword_total AS t (tenant, share, memories, length, threads, threaded_length)
    SELECT of_tenant, pg_backend_pid() % 16, sign * count(*), sign * sum(g.length), changed,
           sign * coalesce(sum(g.length) FILTER (WHERE g.thread <> nowhere), 0)
    FROM unnest(threads, lengths) AS g (thread, length)
    ON CONFLICT (tenant, share) DO UPDATE
    SET memories = t.memories + excluded.memories, length = t.length + excluded.length,
        threads = t.threads + excluded.threads, threaded_length = t.threaded_length + excluded.threaded_length;
END
$$;

-- Forget the terms of memories. Plans go by the keys, whatever the statistics say.
CREATE FUNCTION keyword_drop(of_tenant text, points uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    threads uuid[];
    lengths integer[];
BEGIN
    WITH gone AS (
        DELETE FROM keyword k WHERE k.tenant = of_tenant AND k.point = ANY (points)
        RETURNING k.point, k.thread, k.length, k.terms
    ), emptied AS (
        DELETE FROM posting p
        USING (SELECT g.point, g.thread, unnest(g.terms) AS term FROM gone g) AS o
        WHERE p.tenant = of_tenant AND p.term = o.term AND p.thread = o.thread AND p.point = o.point
    )
    SELECT array_agg(g.thread), array_agg(g.length) INTO threads, lengths FROM gone g;
    PERFORM keyword_count(of_tenant, threads, lengths, -1);
END
$$;

-- Give memories their terms: term i stands counts[i] times in the memory owners[i] of points. A memory that has
-- just these is left alone, one that is deleted gets none.
CREATE FUNCTION keyword_put(
    of_tenant text, points uuid[], sizes integer[], of_edition smallint, owners integer[], terms text[],
    counts smallint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_mergejoin = off AS $$
DECLARE
    nowhere CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    fresh keyword[];
BEGIN
    SELECT array_agg(ROW(of_tenant, g.point, of_edition, coalesce(m.thread, nowhere), g.size,
                         coalesce(o.terms, '{}'), coalesce(o.counts, '{}'))::keyword)
    INTO fresh
    FROM unnest(points, sizes) WITH ORDINALITY AS g (point, size, number)
    CROSS JOIN LATERAL (
        SELECT thread FROM memory
        WHERE tenant = of_tenant AND embedding_id = g.point AND deleted_at IS NULL LIMIT 1
    ) AS m
    LEFT JOIN (
        SELECT u.owner, array_agg(u.term) AS terms, array_agg(u.count) AS counts
        FROM unnest(owners, terms, counts) AS u (owner, term, count) GROUP BY u.owner
    ) AS o ON o.owner = g.number
    LEFT JOIN LATERAL (
        SELECT * FROM keyword WHERE tenant = of_tenant AND point = g.point LIMIT 1
    ) AS k ON true
    WHERE (k.edition, k.length, k.thread, k.terms, k.counts) IS DISTINCT FROM
          (of_edition, g.size, coalesce(m.thread, nowhere), coalesce(o.terms, '{}'), coalesce(o.counts, '{}'));
    IF fresh IS NULL THEN
        RETURN;
    END IF;
    PERFORM keyword_drop(of_tenant, array_agg(f.point)) FROM unnest(fresh) AS f;
    INSERT INTO keyword SELECT * FROM unnest(fresh);
    INSERT INTO posting (tenant, term, thread, point, count, length)
    SELECT of_tenant, u.term, f.thread, f.point, u.count, f.length
    FROM unnest(fresh) AS f CROSS JOIN LATERAL unnest(f.terms, f.counts) AS u (term, count)
    ORDER BY u.term, f.thread, f.point;
    PERFORM keyword_count(of_tenant, array_agg(f.thread ORDER BY f.point), array_agg(f.length ORDER BY f.point), 1)
    FROM unnest(fresh) AS f;
END
$$;

-- A deleted memory loses its terms with the row's own change, whoever deletes it.
CREATE FUNCTION keyword_after_update() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM keyword_drop(w.tenant, array_agg(w.embedding_id))
    FROM written w JOIN before b ON b.tenant = w.tenant AND b.id = w.id
    WHERE w.deleted_at IS NOT NULL AND b.deleted_at IS NULL
    GROUP BY w.tenant;
    RETURN NULL;
END
$$;
CREATE FUNCTION keyword_after_delete() RETURNS trigger
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM keyword_drop(b.tenant, array_agg(b.embedding_id)) FROM before b WHERE b.deleted_at IS NULL GROUP BY b.tenant;
    RETURN NULL;
END
$$;
CREATE TRIGGER keyword_updated AFTER UPDATE ON memory
    REFERENCING OLD TABLE AS before NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION keyword_after_update();
CREATE TRIGGER keyword_deleted AFTER DELETE ON memory
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION keyword_after_delete();
