-- as: app
-- On demand: what was created before a time ago, of a session and a type where they are named.
WITH doomed AS MATERIALIZED (
    SELECT id
    FROM memory
    WHERE tenant = %(tenant)s AND deleted_at IS NULL AND NOT keep AND created_at < now() - %(age)s::interval
      AND (%(session)s::text IS NULL OR session = %(session)s::text)
      AND (%(type)s::text IS NULL OR type = %(type)s::text)
    ORDER BY created_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE memory
SET deleted_at = now(), updated_at = now(), version = next_version(version)
WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM doomed))
  AND deleted_at IS NULL AND NOT keep AND created_at < now() - %(age)s::interval
RETURNING id;
