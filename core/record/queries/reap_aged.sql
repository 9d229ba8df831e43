-- as: app
-- As reap_expire, by the time to live of a type. `least` is the shortest of them: an index leads to the old ones.
WITH doomed AS MATERIALIZED (
    SELECT m.id
    FROM memory m
    LEFT JOIN unnest(%(types)s::text[], %(lives)s::interval[]) AS named (type_named, life) ON named.type_named = m.type
    WHERE m.tenant = %(tenant)s AND m.deleted_at IS NULL AND NOT m.keep
      AND m.created_at <= now() - %(least)s::interval
      AND m.created_at <= now() - CASE WHEN named.type_named IS NULL THEN %(life)s::interval ELSE named.life END
    ORDER BY m.created_at
    LIMIT %(limit)s
    FOR UPDATE OF m SKIP LOCKED
)
UPDATE memory
SET deleted_at = now(), updated_at = now(), version = next_version(version)
WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM doomed))
  AND deleted_at IS NULL AND NOT keep AND created_at <= now() - %(least)s::interval
RETURNING id;
