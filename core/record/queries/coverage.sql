-- as: worker
-- Coverage and lag, per tenant and generation: what its index should hold, how much of that waits or was set aside and
-- since when, how many points it had when it was last counted, and how the last looks at it ended.
SELECT g.tenant, g.number AS generation, g.state, coalesce(d.points, 0)::bigint AS records,
       o.waiting, o.set_aside, o.oldest_waiting, s.points, s.looked_at, s.verdict, s.counted_at, s.clean_at, s.found_at,
       (SELECT count(*) FROM orphan q WHERE q.tenant = g.tenant AND q.generation = g.number) AS orphans
FROM generation g
LEFT JOIN LATERAL (
    SELECT sum(points) AS points FROM (
        SELECT points FROM point_digest WHERE tenant = g.tenant
        UNION ALL
        SELECT points FROM point_digest_delta WHERE tenant = g.tenant
    ) AS parts
) AS d ON true
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE set_aside_at IS NULL) AS waiting,
           count(*) FILTER (WHERE set_aside_at IS NOT NULL) AS set_aside,
           min(enqueued_at) FILTER (WHERE set_aside_at IS NULL) AS oldest_waiting
    FROM outbox WHERE outbox.tenant = g.tenant AND outbox.generation = g.number
) AS o ON true
LEFT JOIN drift_state s ON s.tenant = g.tenant AND s.store = 'index' AND s.generation = g.number
WHERE g.state <> 'dropped' AND (%(tenants)s::text[] IS NULL OR g.tenant = ANY (%(tenants)s::text[]))
ORDER BY g.tenant, g.number;
