-- as: app
-- What points' payloads are made of, by point: no content.
SELECT found.*
FROM unnest(%(points)s::uuid[]) AS asked (point)
CROSS JOIN LATERAL (
    SELECT tenant, id, embedding_id, version, scope, project, agent, session, role, type, tags, labels, importance,
           expires_at, created_at
    FROM memory
    WHERE tenant = %(tenant)s AND embedding_id = asked.point AND deleted_at IS NULL AND tier <> 'archive'
    LIMIT 1
) AS found;
