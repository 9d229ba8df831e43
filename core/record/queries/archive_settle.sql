-- as: app
-- From any tier into the archive, where the content lies in an object already and nothing changed since the look.
WITH chosen AS MATERIALIZED (
    SELECT m.id
    FROM unnest(%(ids)s::text[], %(versions)s::bigint[]) AS asked (id, version)
    JOIN memory m ON m.tenant = %(tenant)s AND m.id = asked.id AND m.version = asked.version
    WHERE m.deleted_at IS NULL AND NOT m.keep AND m.tier <> 'archive' AND m.content_sha256 IS NOT NULL
    ORDER BY m.id
    FOR UPDATE OF m
)
UPDATE memory m SET tier = 'archive', version = next_version(m.version)
WHERE m.tenant = %(tenant)s AND m.id = ANY (ARRAY(SELECT id FROM chosen))
RETURNING m.id;
