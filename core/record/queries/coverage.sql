-- as: worker
-- Coverage and lag, per tenant and store: of each index what it should hold, how much of that waits or was set aside and
-- since when, how many points it had when it was last counted, and how the last looks ended; of the other stores only
-- these. What people and metrics are shown is this one query; `most` ends each count of the outbox (null: nothing does).
SELECT g.tenant, 'index' AS store, g.number AS generation, g.state, coalesce(d.points, 0)::bigint AS records,
       w.waiting, a.set_aside, w.oldest_waiting, extract(epoch FROM now() - w.oldest_waiting)::float8 AS waited,
       s.points, s.looked_at, s.verdict, s.counted_at, s.clean_at, s.found_at,
       (SELECT count(*) FROM orphan q WHERE q.tenant = g.tenant AND q.generation = g.number) AS orphans
FROM generation g
LEFT JOIN LATERAL (
    SELECT sum(points) AS points FROM (
        SELECT points FROM point_digest WHERE tenant = g.tenant
        UNION ALL
        SELECT points FROM point_digest_delta WHERE tenant = g.tenant
    ) AS parts
) AS d ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(enqueued_at) AS oldest_waiting
    FROM (SELECT enqueued_at FROM outbox
          WHERE outbox.tenant = g.tenant AND outbox.generation = g.number AND set_aside_at IS NULL
          LIMIT %(most)s::bigint) AS one
) AS w
CROSS JOIN LATERAL (
    SELECT count(*) AS set_aside
    FROM (SELECT FROM outbox
          WHERE outbox.tenant = g.tenant AND outbox.generation = g.number AND set_aside_at IS NOT NULL
          LIMIT %(most)s::bigint) AS one
) AS a
LEFT JOIN drift_state s ON s.tenant = g.tenant AND s.store = 'index' AND s.generation = g.number
WHERE g.state <> 'dropped' AND (%(tenants)s::text[] IS NULL OR g.tenant = ANY (%(tenants)s::text[]))
UNION ALL
SELECT s.tenant, s.store, s.generation, NULL, NULL, 0, 0, NULL, NULL, s.points, s.looked_at, s.verdict, s.counted_at,
       s.clean_at, s.found_at, 0
FROM drift_state s
WHERE s.store <> 'index' AND (%(tenants)s::text[] IS NULL OR s.tenant = ANY (%(tenants)s::text[]))
ORDER BY tenant, store DESC, generation;
