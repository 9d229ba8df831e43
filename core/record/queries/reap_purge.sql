-- as: app
-- The row goes, with its old versions and its work, and leaves a tombstone: only if it still is the deleted memory
-- that was looked at, no worker holds work of it, and no object of it is left or may still arrive.
WITH chosen AS MATERIALIZED (
    SELECT m.id
    FROM unnest(%(ids)s::text[], %(versions)s::bigint[]) AS a (id, version)
    JOIN memory m ON m.tenant = %(tenant)s AND m.id = a.id AND m.version = a.version
    WHERE m.deleted_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM outbox o WHERE o.tenant = %(tenant)s AND o.memory_id = a.id AND o.lease_until > now()
                        AND o.generation = ANY (%(generations)s::integer[]))
      AND NOT EXISTS (SELECT FROM archive_object o WHERE o.tenant = %(tenant)s AND o.memory_id = a.id)
    ORDER BY m.id
    FOR UPDATE OF m
), gone AS (
    DELETE FROM memory
    WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id, version, deleted_at
), versions AS (
    DELETE FROM memory_version WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM chosen))
), work AS (
    DELETE FROM outbox
    WHERE tenant = %(tenant)s AND generation = ANY (%(generations)s::integer[])
      AND memory_id = ANY (ARRAY(SELECT id FROM chosen))
)
INSERT INTO tombstone AS t (tenant, id, version, deleted_at)
SELECT %(tenant)s, id, version, deleted_at FROM gone ORDER BY id
ON CONFLICT (tenant, id) DO UPDATE
SET version = greatest(t.version, excluded.version), deleted_at = excluded.deleted_at, purged_at = now()
RETURNING id;
