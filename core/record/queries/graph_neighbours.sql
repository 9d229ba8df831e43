-- as: app
-- Breadth first, a level a step: what a level reaches that was not seen before is the next one, the most strongly
-- related first, until there are `limit`. An entity stands once, however many ways lead to it, so circles end.
WITH RECURSIVE walk (distance, frontier, vias, seen) AS (
    SELECT 0, ARRAY[%(entity)s::uuid], ARRAY[%(entity)s::uuid], ARRAY[%(entity)s::uuid]
    UNION ALL
    SELECT walk.distance + 1, next.ids, next.vias, walk.seen || next.ids
    FROM walk
    CROSS JOIN LATERAL (
        SELECT array_agg(best.other ORDER BY best.weight DESC, best.other) AS ids,
               array_agg(best.via ORDER BY best.weight DESC, best.other) AS vias
        FROM (
            SELECT near.other, max(near.weight) AS weight,
                   (array_agg(near.via ORDER BY near.weight DESC, near.via))[1] AS via
            FROM (
                SELECT f.entity AS via, edge.other, sum(edge.weight) AS weight
                FROM unnest(walk.frontier) AS f (entity)
                CROSS JOIN LATERAL graph_edges(
                    %(tenant)s, f.entity, %(types)s::text[], %(outward)s, %(inward)s,
                    CASE WHEN walk.distance = 0 THEN %(first)s::integer ELSE %(most)s::integer END) AS edge
                WHERE edge.other <> ALL (walk.seen)
                GROUP BY f.entity, edge.other
            ) AS near
            GROUP BY near.other
            ORDER BY weight DESC, near.other
            LIMIT greatest(0, %(limit)s + 1 - cardinality(walk.seen))
        ) AS best
    ) AS next
    WHERE walk.distance < %(depth)s AND next.ids IS NOT NULL
)
SELECT e.id, e.name, e.type, e.stated, e.created_at, walk.distance, f.via
FROM walk
CROSS JOIN LATERAL unnest(walk.frontier, walk.vias) AS f (entity, via)
CROSS JOIN LATERAL (
    SELECT id, name, type, stated, created_at FROM entity WHERE tenant = %(tenant)s AND id = f.entity LIMIT 1
) AS e
WHERE walk.distance > 0
ORDER BY walk.distance;
