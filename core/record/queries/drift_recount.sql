-- as: worker
-- The figures of some stretches set right by counting the rows themselves: rows, base and differences are seen as of
-- one moment, so that the difference added is exact whatever is written meanwhile. Two at once would add it twice:
-- lock first.
WITH kept AS (
    SELECT stretch, sum(points) AS points, sum(digest) AS digest
    FROM (
        SELECT stretch, points, digest FROM point_digest WHERE tenant = %(tenant)s
        UNION ALL
        SELECT stretch, points, digest FROM point_digest_delta WHERE tenant = %(tenant)s
    ) AS parts
    WHERE stretch BETWEEN %(first)s AND %(last)s
    GROUP BY stretch
), counted AS (
    SELECT point_stretch(embedding_id) AS stretch, count(*) AS points,
           sum(uuid_hash_extended(embedding_id, version)) AS digest
    FROM memory
    WHERE tenant = %(tenant)s AND embedding_id >= %(from)s::uuid AND embedding_id <= %(to)s::uuid
      AND deleted_at IS NULL AND tier <> 'archive'
    GROUP BY point_stretch(embedding_id)
), wrong AS (
    SELECT coalesce(c.stretch, k.stretch) AS stretch, coalesce(c.points, 0) - coalesce(k.points, 0) AS points,
           coalesce(c.digest, 0) - coalesce(k.digest, 0) AS digest
    FROM counted c FULL JOIN kept k ON k.stretch = c.stretch
), noted AS (
    INSERT INTO point_digest_delta (tenant, stretch, points, digest)
    SELECT %(tenant)s, stretch, points, digest FROM wrong WHERE (points <> 0 OR digest <> 0) AND NOT %(dry)s::boolean
)
SELECT stretch FROM wrong WHERE points <> 0 OR digest <> 0 ORDER BY stretch;
