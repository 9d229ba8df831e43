-- as: app
-- What an index should hold of these memories: archived ones nothing, expired ones until they are reaped.
SELECT tenant, id, embedding_id, version, subject, scope, project, agent, session, position, speaker, role,
       type, title, content, tags, labels, metadata, importance, tier, source, expires_at, accessed_at,
       created_at, updated_at,
       (deleted_at IS NULL AND tier <> 'archive') AS indexed
FROM memory
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);
