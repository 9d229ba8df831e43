-- as: app
-- The same memory under another key: no change of it, so neither version nor index is touched.
WITH chosen AS MATERIALIZED (
    SELECT m.id, a.content, a.title, a.metadata
    FROM unnest(%(ids)s::text[], %(versions)s::bigint[], %(contents)s::text[], %(titles)s::text[],
                %(metadatas)s::jsonb[]) AS a (id, version, content, title, metadata)
    JOIN memory m ON m.tenant = %(tenant)s AND m.id = a.id AND m.version = a.version
    WHERE m.key_id <> %(key_id)s AND m.content_sha256 IS NULL
    ORDER BY m.id
    FOR UPDATE OF m
)
UPDATE memory m
SET content = chosen.content, title = chosen.title, metadata = chosen.metadata, key_id = %(key_id)s
FROM chosen
WHERE m.tenant = %(tenant)s AND m.id = chosen.id
RETURNING m.id;
