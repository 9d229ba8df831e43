-- as: app
-- What an index should hold of these memories: archived ones nothing, expired ones until they are reaped.
-- One look-up an id: see memory_by_ids.
SELECT found.*
FROM unnest(%(ids)s::text[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT tenant, id, embedding_id, version, subject, scope, project, agent, session, position, speaker, role,
           type, title, content, tags, labels, metadata, importance, tier, source, expires_at, accessed_at,
           created_at, updated_at, archive_uri, archive_sha256, content_sha256, key_id, keep,
           (deleted_at IS NULL AND tier <> 'archive') AS indexed
    FROM memory
    WHERE tenant = %(tenant)s AND id = asked.id
    LIMIT 1
) AS found;
