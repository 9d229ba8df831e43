-- as: worker
-- Per tenant: events its stream has not been given yet (counted up to a bound), since when, and when it last got some.
SELECT t.tenant, n.waiting, n.oldest, r.relayed_at
FROM (SELECT DISTINCT tenant FROM generation
      WHERE %(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[])) AS t
LEFT JOIN event_relay r ON r.tenant = t.tenant
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(at) AS oldest FROM (
        SELECT e.at FROM event e WHERE e.tenant = t.tenant AND e.seq > coalesce(r.seq, 0) ORDER BY e.seq LIMIT %(most)s
    ) AS behind
) AS n
ORDER BY t.tenant;
