-- as: app
-- Locked in the order of ids, as bulk writes do, so that the two never wait for each other in a circle.
WITH doomed AS MATERIALIZED (
    SELECT id FROM memory
    WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND deleted_at IS NULL
    ORDER BY id
    FOR UPDATE
)
UPDATE memory
SET deleted_at = now(), updated_at = now(), version = next_version(version)
WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM doomed)) AND deleted_at IS NULL
RETURNING id, version;
