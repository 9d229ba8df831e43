-- as: app
-- Content back in, where the memory still is the stub that was looked at. The clock of its rest starts anew.
WITH chosen AS MATERIALIZED (
    SELECT m.id, a.content
    FROM unnest(%(ids)s::text[], %(versions)s::bigint[], %(contents)s::text[]) AS a (id, version, content)
    JOIN memory m ON m.tenant = %(tenant)s AND m.id = a.id AND m.version = a.version
    WHERE m.deleted_at IS NULL AND m.content_sha256 IS NOT NULL
    ORDER BY m.id
    FOR UPDATE OF m
)
UPDATE memory m
SET content = chosen.content, content_sha256 = NULL, archive_uri = NULL, archive_sha256 = NULL, tier = 'warm',
    accessed_at = now(), version = next_version(m.version)
FROM chosen
WHERE m.tenant = %(tenant)s AND m.id = chosen.id
RETURNING m.id;
