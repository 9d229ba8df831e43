-- as: app
-- How many relations these memories support though no row of them is left.
SELECT count(*) AS held
FROM unnest(%(ids)s::text[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT source FROM relation WHERE tenant = %(tenant)s AND memory_id = asked.id
) AS r
WHERE (SELECT true FROM memory WHERE tenant = %(tenant)s AND id = asked.id AND deleted_at IS NULL LIMIT 1) IS NULL;
