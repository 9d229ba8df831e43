-- as: app
-- What memories lend to others that speak of the same things: to each what the best of them gives for every entity both
-- name, the less the more memories name it. Of a memory at most `names` entities count, of an entity `most` memories
-- in each direction. Not judged yet.
WITH lender AS MATERIALIZED (
    SELECT l.id, l.share, n.entity
    FROM unnest(%(ids)s::text[], %(shares)s::float8[]) AS l (id, share)
    CROSS JOIN LATERAL (
        SELECT DISTINCT v.entity FROM relation r CROSS JOIN LATERAL (VALUES (r.source), (r.target)) AS v (entity)
        WHERE r.tenant = %(tenant)s AND r.memory_id = l.id
        ORDER BY v.entity LIMIT %(names)s
    ) AS n
), around AS MATERIALIZED (
    SELECT e.entity, edge.memory_id, count(*) OVER (PARTITION BY e.entity) AS among
    FROM (SELECT DISTINCT entity FROM lender) AS e
    CROSS JOIN LATERAL (
        SELECT DISTINCT memory_id FROM graph_edges(%(tenant)s, e.entity, NULL, true, true, %(most)s)
        WHERE memory_id <> ''
    ) AS edge
)
SELECT m.point, sum(given.share) AS share
FROM (
    SELECT a.entity, a.memory_id, max(l.share) / sqrt(a.among) AS share
    FROM around a JOIN lender l ON l.entity = a.entity AND l.id <> a.memory_id
    GROUP BY a.entity, a.memory_id, a.among
) AS given
CROSS JOIN LATERAL (
    SELECT embedding_id AS point FROM memory WHERE tenant = %(tenant)s AND id = given.memory_id LIMIT 1
) AS m
GROUP BY m.point
ORDER BY share DESC, m.point
LIMIT %(limit)s;
