-- as: app
-- Memories copied into `incoming`, new or over older versions, in the order of ids so that two bulk writes
-- cannot block each other in a circle. Only what changed is returned; ids stand once each.
-- Turns without a position of their own come after the last of their session, in the order given.
-- An excluded.created_at equal to now() was not given by the caller: the record keeps its own.
INSERT INTO memory AS m (
    tenant, id, embedding_id, version, subject, scope, project, agent, session, position, speaker, role,
    type, title, content, tags, labels, metadata, importance, source, expires_at, created_at, key_id, place)
SELECT %(tenant)s, i.id, i.embedding_id, next_version(coalesce(t.version, 0)), i.subject, i.scope, i.project, i.agent,
       i.session, i.position, i.speaker, i.role, i.type, i.title, i.content, i.tags, i.labels, i.metadata,
       i.importance, i.source, i.expires_at, coalesce(i.created_at, now()), i.key_id,
       coalesce(i.position, l.last + row_number() OVER (PARTITION BY i.session, i.position IS NULL ORDER BY i.number))
FROM pg_temp.incoming i
LEFT JOIN tombstone t ON t.tenant = %(tenant)s AND t.id = i.id
LEFT JOIN (
    SELECT s.session, (
        SELECT coalesce(max(b.place), -1) FROM memory b
        WHERE b.tenant = %(tenant)s AND b.thread = thread_of(s.session, NULL, NULL) AND b.deleted_at IS NULL
    ) AS last
    FROM (SELECT DISTINCT session FROM pg_temp.incoming WHERE position IS NULL AND session IS NOT NULL) AS s
) AS l ON l.session = i.session
ORDER BY i.id
ON CONFLICT (tenant, id) DO UPDATE
SET version = next_version(m.version), subject = excluded.subject, scope = excluded.scope,
    project = excluded.project, agent = excluded.agent, session = excluded.session,
    position = excluded.position, speaker = excluded.speaker, role = excluded.role, type = excluded.type,
    title = excluded.title, content = excluded.content, tags = excluded.tags, labels = excluded.labels,
    metadata = excluded.metadata, importance = excluded.importance, source = excluded.source,
    expires_at = excluded.expires_at, tier = 'warm', archive_uri = NULL, archive_sha256 = NULL,
    content_sha256 = NULL, key_id = excluded.key_id, keep = m.keep AND m.deleted_at IS NULL,
    created_at = CASE WHEN m.deleted_at IS NULL AND excluded.created_at = now()
                      THEN m.created_at ELSE excluded.created_at END,
    deleted_at = NULL, updated_at = now(),
    place = CASE WHEN excluded.position IS NOT NULL THEN excluded.position
                 WHEN m.session IS NOT DISTINCT FROM excluded.session AND m.place IS NOT NULL THEN m.place
                 ELSE excluded.place END
WHERE m.deleted_at IS NOT NULL
   OR (m.subject, m.scope, m.project, m.agent, m.session, m.position, m.speaker, m.role, m.type, m.title,
       CASE WHEN m.content_sha256 IS NULL THEN m.content ELSE m.content_sha256 END, m.key_id, m.tags, m.labels,
       m.metadata, m.importance, m.source, m.expires_at)
      IS DISTINCT FROM
      (excluded.subject, excluded.scope, excluded.project, excluded.agent, excluded.session,
       excluded.position, excluded.speaker, excluded.role, excluded.type, excluded.title,
       CASE WHEN m.content_sha256 IS NULL THEN excluded.content
            ELSE encode(sha256(convert_to(excluded.content, 'UTF8')), 'hex') END,
       excluded.key_id, excluded.tags, excluded.labels, excluded.metadata, excluded.importance, excluded.source,
       excluded.expires_at)
   OR (excluded.created_at <> now() AND excluded.created_at <> m.created_at)
RETURNING m.id, m.version;
