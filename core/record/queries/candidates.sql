-- as: app
-- What ranking needs to know of the records behind hits, without their text: those that are alive and meet the
-- filters now, whatever an index says. One look-up a point: see memory_by_ids.
SELECT found.*
FROM unnest(%(points)s::uuid[]) AS asked (point)
CROSS JOIN LATERAL (
    SELECT m.embedding_id, m.id, m.version, m.tier, m.type, m.tags,
           coalesce(nullif(m.speaker, ''), m.labels ->> 'speaker') AS speaker, m.created_at, m.thread, m.place,
           m.session IS NOT NULL AS is_turn
    FROM memory m
    WHERE m.tenant = %(tenant)s AND m.embedding_id = asked.point
      AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
      AND (%(scope)s::text IS NULL OR m.scope = %(scope)s::text)
      AND (%(project)s::text IS NULL OR m.project = %(project)s::text)
      AND (%(agent)s::text IS NULL OR m.agent = %(agent)s::text)
      AND (%(session)s::text IS NULL OR m.session = %(session)s::text)
      AND (%(role)s::text IS NULL OR m.role = %(role)s::text)
      AND (%(type)s::text IS NULL OR m.type = %(type)s::text)
      AND (%(tier)s::text IS NULL OR m.tier = %(tier)s::text)
      AND (%(tags_any)s::text[] IS NULL OR m.tags && %(tags_any)s::text[])
      AND (%(tags_all)s::text[] IS NULL OR m.tags @> %(tags_all)s::text[])
      AND (%(labels)s::jsonb IS NULL OR m.labels @> %(labels)s::jsonb)
      AND (%(min_importance)s::float8 IS NULL OR m.importance >= %(min_importance)s::float8)
      AND (%(created_from)s::timestamptz IS NULL OR m.created_at >= %(created_from)s::timestamptz)
      AND (%(created_to)s::timestamptz IS NULL OR m.created_at < %(created_to)s::timestamptz)
    LIMIT 1
) AS found;
