-- as: app
-- Newest first. A page starts behind (before, before_id), the last row of the page before it.
SELECT tenant, id, embedding_id, version, subject, scope, project, agent, session, position, speaker, role,
       type, title, content, tags, labels, metadata, importance, tier, source, expires_at, accessed_at,
       created_at, updated_at, archive_uri, archive_sha256, content_sha256, key_id, keep
FROM memory
WHERE tenant = %(tenant)s
  AND (%(scope)s::text IS NULL OR scope = %(scope)s::text)
  AND (%(project)s::text IS NULL OR project = %(project)s::text)
  AND (%(session)s::text IS NULL OR session = %(session)s::text)
  AND (%(role)s::text IS NULL OR role = %(role)s::text)
  AND (%(before)s::timestamptz IS NULL
       OR (created_at, id) < (%(before)s::timestamptz, %(before_id)s::text))
  AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now())
ORDER BY created_at DESC, id DESC
LIMIT %(limit)s;
