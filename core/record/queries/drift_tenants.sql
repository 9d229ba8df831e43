-- as: worker
-- Tenants with what an index of theirs should hold, those looked at longest ago first.
SELECT g.tenant, coalesce((SELECT sum(points) FROM point_digest d WHERE d.tenant = g.tenant), 0)::bigint AS records
FROM (SELECT DISTINCT tenant FROM generation
      WHERE %(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[])) AS g
LEFT JOIN LATERAL (
    SELECT min(looked_at) AS looked_at FROM drift_state s WHERE s.tenant = g.tenant AND s.store = 'index'
) AS s ON true
ORDER BY s.looked_at NULLS FIRST, g.tenant
LIMIT %(limit)s;
