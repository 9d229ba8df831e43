-- as: app
WITH old AS MATERIALIZED (
    SELECT seq FROM event
    WHERE tenant = %(tenant)s AND at <= now() - %(kept)s::interval
    ORDER BY at LIMIT %(limit)s
)
DELETE FROM event WHERE tenant = %(tenant)s AND seq = ANY (ARRAY(SELECT seq FROM old));
