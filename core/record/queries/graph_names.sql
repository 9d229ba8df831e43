-- as: app
-- Names an entity is known by.
SELECT name
FROM entity_name
WHERE tenant = %(tenant)s AND entity = %(entity)s::uuid
ORDER BY folded
LIMIT %(limit)s;
