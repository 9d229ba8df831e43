-- as: app
-- Deletions a restored record has forgotten. A memory at a later version lives; so does one that was written well
-- after its deletion, whose count began anew because its tombstone had been purged. The five minutes are for a
-- deletion that waited behind a write: its time is that of its transaction's beginning.
WITH doomed AS MATERIALIZED (
    SELECT m.id
    FROM unnest(%(ids)s::text[], %(versions)s::bigint[], %(times)s::timestamptz[]) AS gone (id, version, at)
    JOIN memory m ON m.tenant = %(tenant)s AND m.id = gone.id
    WHERE m.deleted_at IS NULL AND m.version < gone.version AND m.updated_at < gone.at + interval '5 minutes'
    ORDER BY m.id
    FOR UPDATE OF m
)
UPDATE memory
SET deleted_at = now(), updated_at = now(), version = next_version(version)
WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM doomed)) AND deleted_at IS NULL
RETURNING id, version;
