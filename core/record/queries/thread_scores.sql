-- as: app
-- BM25 of whole threads: of all that stands in each as one text. Only these threads' parts of the index are read.
-- With filters, what does not meet them lends nothing.
SELECT t.thread,
       sum(t.weight * t.count
           / (t.count + %(k1)s::float8 * (%(rest)s::float8 + %(slope)s::float8 * k.length))) AS score
FROM (
    SELECT p.thread, a.weight, sum(p.count)::float8 AS count
    FROM unnest(%(terms)s::text[], %(weights)s::float8[]) AS a (term, weight)
    CROSS JOIN LATERAL (
        SELECT o.thread, o.count FROM posting o
        WHERE o.tenant = %(tenant)s AND o.term = a.term AND o.thread = ANY (%(threads)s::uuid[])
          AND (NOT %(filtered)s::boolean OR EXISTS (
              SELECT FROM memory m
              WHERE m.tenant = %(tenant)s AND m.embedding_id = o.point
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
          ))
    ) AS p
    GROUP BY p.thread, a.term, a.weight
) AS t
CROSS JOIN LATERAL (
    SELECT length::float8 FROM keyword_thread WHERE tenant = %(tenant)s AND thread = t.thread LIMIT 1
) AS k
GROUP BY t.thread;
