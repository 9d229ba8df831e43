-- as: app
-- The rows that are about to go, with the versions their tombstones will have.
SELECT m.id, next_version(m.version) AS version, now() AS at
FROM unnest(%(ids)s::text[], %(versions)s::bigint[]) AS a (id, version)
CROSS JOIN LATERAL (
    SELECT id, version FROM memory WHERE tenant = %(tenant)s AND id = a.id AND version <= a.version LIMIT 1
) AS m
ORDER BY m.id;
