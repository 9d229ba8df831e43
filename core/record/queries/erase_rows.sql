-- as: app
-- Rows, old versions, events and vectors that came by batch jobs for nobody else go; others lose the name; a tombstone stays. In the order
-- of ids, as bulk writes lock them. Where a later row stands, the old versions stay until it is judged: they say that
-- it was meant. Once the erasure has ended, it is another matter.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::text[], %(versions)s::bigint[]) AS a (id, version)
), chosen AS MATERIALIZED (
    SELECT m.id, m.version FROM asked JOIN memory m ON m.tenant = %(tenant)s AND m.id = asked.id
    WHERE m.version <= asked.version
    ORDER BY m.id
    FOR UPDATE OF m
), gone AS (
    DELETE FROM memory WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING id, version
), versions AS (
    DELETE FROM memory_version v USING asked
    WHERE v.tenant = %(tenant)s AND v.id = asked.id AND v.version <= asked.version
      AND ((SELECT ended_at IS NOT NULL FROM erasure WHERE tenant = %(tenant)s AND id = %(erasure)s)
           OR NOT EXISTS (SELECT FROM memory m
                          WHERE m.tenant = %(tenant)s AND m.id = asked.id AND m.version > asked.version))
), items AS (
    DELETE FROM batch_item WHERE tenant = %(tenant)s AND memory_ids <@ %(ids)s::text[]
), shared AS (
    UPDATE batch_item b SET memory_ids = kept.ids, versions = kept.versions
    FROM (
        SELECT o.id, array_agg(named.id ORDER BY named.place) AS ids,
               array_agg(named.version ORDER BY named.place) AS versions
        FROM batch_item o CROSS JOIN unnest(o.memory_ids, o.versions) WITH ORDINALITY AS named (id, version, place)
        WHERE o.tenant = %(tenant)s AND o.memory_ids && %(ids)s::text[] AND named.id <> ALL (%(ids)s::text[])
        GROUP BY o.id
    ) AS kept
    WHERE b.tenant = %(tenant)s AND b.id = kept.id
), events AS (
    DELETE FROM event e USING asked
    WHERE e.tenant = %(tenant)s AND e.memory_id = asked.id AND e.version <= asked.version
)
INSERT INTO tombstone AS t (tenant, id, version, deleted_at)
SELECT %(tenant)s, id, next_version(version), now() FROM gone ORDER BY id
ON CONFLICT (tenant, id) DO UPDATE
SET version = greatest(t.version, excluded.version), deleted_at = excluded.deleted_at, purged_at = now()
RETURNING id;
