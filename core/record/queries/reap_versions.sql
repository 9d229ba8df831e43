-- as: app
WITH old AS MATERIALIZED (
    SELECT id, version FROM memory_version
    WHERE tenant = %(tenant)s AND replaced_at <= now() - %(kept)s::interval
    ORDER BY replaced_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM memory_version v USING old
WHERE v.tenant = %(tenant)s AND v.id = old.id AND v.version = old.version;
