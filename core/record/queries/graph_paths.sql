-- as: app
-- Paths without a circle from one entity to another, the shortest first. `back` says how far entities are from the end,
-- up to `ball` of them; then paths grow a step at a time from the beginning, and only towards the end, at most `open` of
-- them at once. A path is its entities' ids in a row, 36 characters each.
WITH RECURSIVE back (distance, frontier, seen) AS (
    SELECT 0, ARRAY[%(end)s::uuid], ARRAY[%(end)s::uuid]
    UNION ALL
    SELECT back.distance + 1, next.ids, back.seen || next.ids
    FROM back
    CROSS JOIN LATERAL (
        SELECT array_agg(best.other ORDER BY best.other) AS ids
        FROM (
            SELECT edge.other, sum(edge.weight) AS weight
            FROM unnest(back.frontier) AS f (entity)
            CROSS JOIN LATERAL graph_edges(%(tenant)s, f.entity, %(types)s::text[], %(inward)s, %(outward)s,
                                           %(most)s) AS edge
            WHERE edge.other <> ALL (back.seen)
            GROUP BY edge.other
            ORDER BY weight DESC, edge.other
            LIMIT greatest(0, %(ball)s - cardinality(back.seen))
        ) AS best
    ) AS next
    WHERE back.distance < %(depth)s AND next.ids IS NOT NULL
), ball AS MATERIALIZED (
    SELECT f.entity, back.distance FROM back CROSS JOIN LATERAL unnest(back.frontier) AS f (entity)
), growing (steps, paths) AS (
    SELECT 0, ARRAY[%(begin)s::uuid::text] FROM ball WHERE entity = %(begin)s::uuid
    UNION ALL
    SELECT growing.steps + 1, next.paths
    FROM growing
    CROSS JOIN LATERAL (
        SELECT array_agg(longer.path ORDER BY longer.path) AS paths
        FROM (
            SELECT DISTINCT edge.other = %(end)s::uuid AS ends, p.path || edge.other AS path
            FROM unnest(growing.paths) AS p (path)
            CROSS JOIN LATERAL graph_edges(%(tenant)s, right(p.path, 36)::uuid, %(types)s::text[], %(outward)s,
                                           %(inward)s, %(most)s) AS edge
            JOIN ball ON ball.entity = edge.other AND ball.distance < %(depth)s - growing.steps
            WHERE right(p.path, 36) <> %(end)s::uuid::text AND position(edge.other::text IN p.path) = 0
            ORDER BY ends DESC, path  -- those that have arrived are never cut off by those under way
            LIMIT %(open)s
        ) AS longer
    ) AS next
    WHERE growing.steps < %(depth)s AND next.paths IS NOT NULL
)
SELECT p.path
FROM growing CROSS JOIN LATERAL unnest(growing.paths) AS p (path)
WHERE right(p.path, 36) = %(end)s::uuid::text AND growing.steps > 0
ORDER BY growing.steps, p.path
LIMIT %(limit)s;
