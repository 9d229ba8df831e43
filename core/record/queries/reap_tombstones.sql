-- as: app
WITH old AS MATERIALIZED (
    SELECT id FROM tombstone
    WHERE tenant = %(tenant)s AND purged_at <= now() - %(kept)s::interval
    ORDER BY purged_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM tombstone WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM old));
