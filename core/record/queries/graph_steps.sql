-- as: app
-- For each pair of entities the strongest living relation from the one to the other, in the directions asked.
SELECT asked.number, best.source = asked.one AS forwards, s.name AS source, best.type, t.name AS target, best.weight,
       best.memories
FROM unnest(%(froms)s::uuid[], %(tos)s::uuid[]) WITH ORDINALITY AS asked (one, other, number)
CROSS JOIN LATERAL (
    SELECT r.source, r.target, r.type, sum(r.weight) AS weight, count(*) FILTER (WHERE r.memory_id <> '') AS memories
    FROM (
        (SELECT source, target, type, weight, memory_id FROM relation
         WHERE %(outward)s AND tenant = %(tenant)s AND source = asked.one AND target = asked.other)
        UNION ALL
        (SELECT source, target, type, weight, memory_id FROM relation
         WHERE %(inward)s AND tenant = %(tenant)s AND source = asked.other AND target = asked.one)
    ) AS r
    WHERE (%(types)s::text[] IS NULL OR r.type = ANY (%(types)s::text[]))
      AND (r.memory_id = '' OR (
          SELECT true FROM memory m WHERE m.tenant = %(tenant)s AND m.id = r.memory_id
            AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) LIMIT 1))
    GROUP BY r.source, r.target, r.type
    ORDER BY weight DESC, r.type, r.source
    LIMIT 1
) AS best
CROSS JOIN LATERAL (SELECT name FROM entity WHERE tenant = %(tenant)s AND id = best.source LIMIT 1) AS s
CROSS JOIN LATERAL (SELECT name FROM entity WHERE tenant = %(tenant)s AND id = best.target LIMIT 1) AS t
ORDER BY asked.number;
