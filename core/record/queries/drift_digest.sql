-- as: app
-- What an index of the tenant should hold, stretch by stretch: base and differences, as of one moment.
SELECT stretch, sum(points)::bigint AS points, sum(digest) AS digest
FROM (
    SELECT stretch, points, digest FROM point_digest WHERE tenant = %(tenant)s
    UNION ALL
    SELECT stretch, points, digest FROM point_digest_delta WHERE tenant = %(tenant)s
) AS parts
GROUP BY stretch
HAVING sum(points) <> 0 OR sum(digest) <> 0;
