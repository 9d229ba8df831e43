-- as: app
-- Cut the tenant's ids into ranges of `size` rows, the last one open to the end. Ranges that are there stay.
WITH bounds AS (
    SELECT id, row_number() OVER (ORDER BY id) AS place
    FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM memory WHERE tenant = %(tenant)s) AS numbered
    WHERE mod(n, %(size)s::bigint) = 0
), ranges AS (
    SELECT place AS number, lag(id) OVER (ORDER BY place) AS after_id, id AS last_id FROM bounds
    UNION ALL
    SELECT coalesce(max(place), 0) + 1, max(id), NULL FROM bounds
)
INSERT INTO backfill_range (tenant, generation, number, after_id, last_id)
SELECT %(tenant)s, %(generation)s, number, after_id, last_id FROM ranges
ON CONFLICT DO NOTHING;
