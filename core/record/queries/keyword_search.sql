-- as: app
-- Okapi BM25 (Robertson and Zaragoza, 2009) over the terms asked, any of them; weights hold idf and k1 + 1.
-- All in float8: numeric literals would make every product a numeric, many times slower. Memories are looked at
-- in the order of their scores, at most `reach` of them, until enough are alive and meet the filters. `among`: terms
-- of a filter that few memories meet, which then drive the query.
SELECT ranked.point, ranked.score
FROM (
    SELECT p.point,
           sum(a.weight * p.count
               / (p.count + %(k1)s::float8 * (%(rest)s::float8 + %(slope)s::float8 * p.length))) AS score
    FROM unnest(%(terms)s::text[], %(weights)s::float8[]) AS a (term, weight)
    CROSS JOIN LATERAL (
        SELECT point, count, length FROM posting
        WHERE tenant = %(tenant)s AND term = a.term
          AND (%(session)s::text IS NULL OR thread = thread_of(%(session)s::text, NULL, NULL))
    ) AS p
    WHERE %(among)s::text[] IS NULL OR p.point IN (
        SELECT point FROM posting WHERE tenant = %(tenant)s AND term = ANY (%(among)s::text[]))
    GROUP BY p.point
    ORDER BY score DESC, p.point
    LIMIT %(reach)s
) AS ranked
CROSS JOIN LATERAL (
    SELECT created_at FROM memory m
    WHERE m.tenant = %(tenant)s AND m.embedding_id = ranked.point
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
) AS alive
ORDER BY ranked.score DESC, ranked.point
LIMIT %(limit)s;
