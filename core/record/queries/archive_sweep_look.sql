-- as: app
-- Of objects marked just now those no record points at: since the mark none can have come to.
SELECT o.key FROM archive_object o
WHERE o.tenant = %(tenant)s AND o.key = ANY (%(keys)s::text[]) AND o.swept_at > now() - interval '30 minutes'
  AND NOT EXISTS (SELECT FROM memory m WHERE m.tenant = %(tenant)s AND m.id = o.memory_id AND m.archive_uri = o.key)
ORDER BY o.key;
