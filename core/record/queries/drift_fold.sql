-- as: worker
-- Differences into the base, for one tenant and a bounded number of rows. Those another run is folding are left to it.
WITH taken AS MATERIALIZED (
    SELECT number FROM point_digest_delta WHERE tenant = %(tenant)s ORDER BY number LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM point_digest_delta d USING taken t
    WHERE d.tenant = %(tenant)s AND d.number = t.number
    RETURNING d.stretch, d.points, d.digest
), folded AS (
    INSERT INTO point_digest AS b (tenant, stretch, points, digest)
    SELECT %(tenant)s, stretch, sum(points), sum(digest) FROM gone GROUP BY stretch ORDER BY stretch
    ON CONFLICT (tenant, stretch) DO UPDATE
    SET points = b.points + excluded.points, digest = b.digest + excluded.digest
)
SELECT count(*) AS folded FROM gone;
