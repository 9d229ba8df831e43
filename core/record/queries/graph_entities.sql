-- as: app
-- A page of entities in the order of their names, behind `after`; each is seen as in graph_resolve.
SELECT e.id, e.name, e.type, e.stated, e.created_at
FROM entity e
WHERE e.tenant = %(tenant)s AND e.folded > %(after)s
  AND (%(type)s::text IS NULL OR e.type = %(type)s::text)
  AND (e.stated OR EXISTS (SELECT FROM graph_edges(%(tenant)s, e.id, NULL, true, true, 1)))
ORDER BY e.folded
LIMIT %(limit)s;
