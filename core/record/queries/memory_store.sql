-- as: app
-- One memory, new or over an older version. Nothing is returned when all of it was there already.
-- A turn without a position of its own comes after the last of its session.
-- An excluded.created_at equal to now() was not given by the caller: the record keeps its own.
INSERT INTO memory AS m (
    tenant, id, embedding_id, version, subject, scope, project, agent, session, position, speaker, role,
    type, title, content, tags, labels, metadata, importance, source, expires_at, created_at, key_id, place)
VALUES (
    %(tenant)s, %(id)s, %(embedding_id)s, first_version(%(tenant)s, %(id)s), %(subject)s, %(scope)s, %(project)s,
    %(agent)s, %(session)s::text, %(position)s::bigint, %(speaker)s, %(role)s, %(type)s, %(title)s, %(content)s,
    %(tags)s::text[], %(labels)s, %(metadata)s, %(importance)s, %(source)s, %(expires_at)s,
    coalesce(%(created_at)s::timestamptz, now()), %(key_id)s,
    coalesce(%(position)s::bigint, CASE WHEN %(session)s::text IS NOT NULL THEN
        (SELECT coalesce(max(b.place), -1) + 1 FROM memory b
         WHERE b.tenant = %(tenant)s AND b.thread = thread_of(%(session)s::text, NULL, NULL)
           AND b.deleted_at IS NULL) END))
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
