-- as: app
-- Memories that were written before there were terms, or under earlier rules, a piece at a time in the order of ids.
-- Stubs keep the terms of their whole content; sealed ones have none.
SELECT m.tenant, m.id, m.embedding_id, m.version, m.subject, m.scope, m.project, m.agent, m.session, m.position,
       m.speaker, m.role, m.type, m.title, m.content, m.tags, m.labels, m.metadata, m.importance, m.tier, m.source,
       m.expires_at, m.accessed_at, m.created_at, m.updated_at, m.archive_uri, m.archive_sha256, m.content_sha256, m.key_id,
       m.keep
FROM memory m
LEFT JOIN keyword k ON k.tenant = m.tenant AND k.point = m.embedding_id
WHERE m.tenant = %(tenant)s AND m.id > %(after)s AND m.deleted_at IS NULL AND m.content_sha256 IS NULL AND m.key_id IS NULL
  AND k.edition IS DISTINCT FROM %(edition)s::smallint
ORDER BY m.id
LIMIT %(limit)s
FOR UPDATE OF m;
