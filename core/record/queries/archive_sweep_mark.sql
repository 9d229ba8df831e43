-- as: app
-- Objects no record points at, a grace time after the last moment at which one might have come to: marked first, so
-- that none can from here on, and looked at again before anything is removed. What another sweep marked is its own
-- for an hour.
WITH old AS MATERIALIZED (
    SELECT o.key, o.memory_id
    FROM archive_object o
    WHERE o.tenant = %(tenant)s AND o.live_until <= now() - %(grace)s::interval
      AND (o.swept_at IS NULL OR o.swept_at <= now() - interval '1 hour')
      AND NOT EXISTS (SELECT FROM memory m WHERE m.tenant = %(tenant)s AND m.id = o.memory_id AND m.archive_uri = o.key)
    ORDER BY o.key
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE archive_object o SET swept_at = now()
FROM old
WHERE o.tenant = %(tenant)s AND o.key = old.key
RETURNING o.key;
