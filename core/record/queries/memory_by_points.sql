-- as: app
-- The records behind index points, as they are now: deleted and expired ones drop out here.
-- One look-up a point: see memory_by_ids.
SELECT found.*
FROM unnest(%(points)s::uuid[]) AS asked (point)
CROSS JOIN LATERAL (
    SELECT tenant, id, embedding_id, version, subject, scope, project, agent, session, position, speaker, role,
           type, title, content, tags, labels, metadata, importance, tier, source, expires_at, accessed_at,
           created_at, updated_at, archive_uri, archive_sha256, content_sha256, key_id, keep
    FROM memory
    WHERE tenant = %(tenant)s AND embedding_id = asked.point
      AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now())
    LIMIT 1
) AS found;
