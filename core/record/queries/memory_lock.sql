-- as: app
SELECT tenant, id, embedding_id, version, subject, scope, project, agent, session, position, speaker, role,
       type, title, content, tags, labels, metadata, importance, tier, source, expires_at, accessed_at,
       created_at, updated_at, archive_uri, archive_sha256, content_sha256, key_id, keep
FROM memory
WHERE tenant = %(tenant)s AND id = %(id)s AND deleted_at IS NULL
  AND (expires_at IS NULL OR expires_at > now())
FOR UPDATE;
