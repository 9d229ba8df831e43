-- as: app
-- A kept memory has no end. Taking its end away is a change like any other, which the indexes have to learn.
WITH chosen AS MATERIALIZED (
    SELECT id FROM memory
    WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND deleted_at IS NULL
      AND (expires_at IS NULL OR expires_at > now())
    ORDER BY id
    FOR UPDATE
)
UPDATE memory
SET keep = %(keep)s,
    version = CASE WHEN %(keep)s AND expires_at IS NOT NULL THEN next_version(version) ELSE version END,
    expires_at = CASE WHEN %(keep)s THEN NULL ELSE expires_at END
WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM chosen))
RETURNING id;
