-- as: app
-- Deleted for long enough, and nobody is at work on them: oldest first, behind (after, after_id).
SELECT m.id, m.version, m.embedding_id, m.deleted_at
FROM memory m
WHERE m.tenant = %(tenant)s AND m.deleted_at IS NOT NULL AND m.deleted_at <= now() - %(wait)s::interval
  AND (m.deleted_at, m.id) > (%(after)s::timestamptz, %(after_id)s::text)
ORDER BY m.deleted_at, m.id
LIMIT %(limit)s;
