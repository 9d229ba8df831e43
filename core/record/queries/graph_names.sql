-- as: app
-- Every name some entities are known by.
SELECT asked.id, n.name
FROM unnest(%(entities)s::uuid[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT name, folded FROM entity_name WHERE tenant = %(tenant)s AND entity = asked.id
    ORDER BY folded LIMIT %(limit)s
) AS n
ORDER BY asked.id, n.folded;
