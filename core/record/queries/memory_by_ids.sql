-- as: app
-- Live memories only: deleted and expired ones are gone for every reader.
-- One look-up an id, whatever the statistics say: after a bulk write they are stale, and an array would be
-- answered from any index that begins with the tenant.
SELECT found.*
FROM unnest(%(ids)s::text[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT tenant, id, embedding_id, version, subject, scope, project, agent, session, position, speaker, role,
           type, title, content, tags, labels, metadata, importance, tier, source, expires_at, accessed_at,
           created_at, updated_at, archive_uri, archive_sha256, content_sha256, key_id, keep
    FROM memory
    WHERE tenant = %(tenant)s AND id = asked.id
      AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now())
    LIMIT 1
) AS found;
