-- as: app
-- What the record still says of these memories, up to the versions that are meant.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::text[], %(versions)s::bigint[]) AS a (id, version)
)
SELECT (SELECT count(*) FROM asked JOIN memory m ON m.tenant = %(tenant)s AND m.id = asked.id
        WHERE m.version <= asked.version) AS rows,
       (SELECT count(*) FROM asked JOIN memory_version v ON v.tenant = %(tenant)s AND v.id = asked.id
        WHERE v.version <= asked.version) AS versions,
       (SELECT count(*) FROM asked JOIN event e ON e.tenant = %(tenant)s AND e.memory_id = asked.id
        WHERE e.version <= asked.version) AS events,
       (SELECT count(*) FROM batch_item b CROSS JOIN unnest(b.memory_ids, b.versions) AS named (id, version)
        JOIN asked ON asked.id = named.id AND named.version <= asked.version
        WHERE b.tenant = %(tenant)s AND b.memory_ids && %(ids)s::text[]) AS batch_items,
       (SELECT count(*) FROM unnest(%(points)s::uuid[]) AS p (point)
        CROSS JOIN LATERAL (SELECT 1 FROM keyword k WHERE k.tenant = %(tenant)s AND k.point = p.point LIMIT 1) AS there
        WHERE NOT EXISTS (SELECT 1 FROM memory m WHERE m.tenant = %(tenant)s AND m.embedding_id = p.point)) AS terms;
