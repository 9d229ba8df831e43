-- as: app
-- The second look at many memories that were just written to an index: those that are not, or no longer, at the
-- version they were written at. One look-up an id: see memory_by_ids.
SELECT asked.id
FROM unnest(%(ids)s::text[], %(versions)s::bigint[]) AS asked (id, version)
LEFT JOIN LATERAL (
    SELECT m.version
    FROM memory m
    WHERE m.tenant = %(tenant)s AND m.id = asked.id AND m.deleted_at IS NULL AND m.tier <> 'archive'
    LIMIT 1
) AS now ON true
WHERE now.version IS DISTINCT FROM asked.version;
