-- as: app
-- The second look: which of these rows still point at these objects.
SELECT asked.id
FROM unnest(%(ids)s::text[], %(keys)s::text[]) AS asked (id, key)
CROSS JOIN LATERAL (
    SELECT 1 FROM memory m
    WHERE m.tenant = %(tenant)s AND m.id = asked.id AND m.deleted_at IS NULL AND m.archive_uri = asked.key
    LIMIT 1
) AS still;
