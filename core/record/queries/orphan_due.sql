-- as: app
SELECT point, version, kind FROM orphan
WHERE tenant = %(tenant)s AND generation = %(generation)s AND found_at <= now() - %(age)s::interval
ORDER BY point
LIMIT %(limit)s;
