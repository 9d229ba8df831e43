-- as: app
-- From warm to cold or back, where nothing changed since the look. Neither version nor index is touched.
WITH chosen AS MATERIALIZED (
    SELECT m.id
    FROM unnest(%(ids)s::text[], %(versions)s::bigint[]) AS asked (id, version)
    JOIN memory m ON m.tenant = %(tenant)s AND m.id = asked.id AND m.version = asked.version
    WHERE m.deleted_at IS NULL AND NOT m.keep AND m.tier <> 'archive' AND m.tier <> %(tier)s
    ORDER BY m.id
    FOR UPDATE OF m
)
UPDATE memory SET tier = %(tier)s
WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM chosen))
RETURNING id;
