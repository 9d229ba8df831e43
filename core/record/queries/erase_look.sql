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
        WHERE e.version <= asked.version) AS events;
