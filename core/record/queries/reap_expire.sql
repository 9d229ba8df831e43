-- as: app
-- The look and the deletion are one statement: whoever extends, keeps or changes a memory meanwhile either comes
-- first, and it is judged anew as it is then, or finds it deleted. What somebody else holds waits for the next step.
WITH doomed AS MATERIALIZED (
    SELECT m.id
    FROM memory m
    WHERE m.tenant = %(tenant)s AND m.deleted_at IS NULL AND NOT m.keep AND m.expires_at <= now()
    ORDER BY m.expires_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE memory
SET deleted_at = now(), updated_at = now(), version = next_version(version)
WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM doomed))
  AND deleted_at IS NULL AND NOT keep AND expires_at <= now()
RETURNING id;
