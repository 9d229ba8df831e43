-- as: app
-- The second look: what the record says now of memories an index was just brought up to.
-- One look-up an id: see memory_by_ids.
SELECT found.*
FROM unnest(%(ids)s::text[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT id, version, (deleted_at IS NULL AND tier <> 'archive') AS indexed
    FROM memory
    WHERE tenant = %(tenant)s AND id = asked.id
    LIMIT 1
) AS found;
