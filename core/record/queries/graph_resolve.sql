-- as: app
-- Entities by names they are known by: seen while somebody has stated them or a living memory names them.
SELECT asked.folded AS asked, e.id, e.name, e.type, e.stated, e.created_at
FROM unnest(%(keys)s::text[]) AS asked (folded)
CROSS JOIN LATERAL (
    SELECT entity FROM entity_name WHERE tenant = %(tenant)s AND folded = asked.folded LIMIT 1
) AS n
CROSS JOIN LATERAL (
    SELECT id, name, type, stated, created_at FROM entity WHERE tenant = %(tenant)s AND id = n.entity LIMIT 1
) AS e
WHERE e.stated OR EXISTS (SELECT FROM graph_edges(%(tenant)s, e.id, NULL, true, true, 1));
