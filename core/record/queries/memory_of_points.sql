-- as: app
-- What the record says of the memories behind points: which version, since when, and whether an index holds them.
-- One look-up a point: see memory_by_ids.
SELECT found.*
FROM unnest(%(points)s::uuid[]) AS asked (point)
CROSS JOIN LATERAL (
    SELECT id, embedding_id, version, updated_at, (deleted_at IS NULL AND tier <> 'archive') AS indexed
    FROM memory
    WHERE tenant = %(tenant)s AND embedding_id = asked.point
    LIMIT 1
) AS found;
