-- as: worker
-- Tenants with work that can be claimed now, the one served least recently first. Nothing is counted: the probes stop
-- at the first claimable row of a generation, so that this may be asked every second.
SELECT g.tenant
FROM generation g
WHERE g.state <> 'dropped' AND g.dropping_at IS NULL
  AND (%(tenants)s::text[] IS NULL OR g.tenant = ANY (%(tenants)s::text[]))
  AND EXISTS (
    SELECT FROM outbox o
    WHERE o.tenant = g.tenant AND o.generation = g.number AND o.set_aside_at IS NULL
      AND o.ready_at <= now() AND (o.lease_until IS NULL OR o.lease_until <= now())
  )
GROUP BY g.tenant
ORDER BY min(g.served_at), g.tenant
LIMIT %(limit)s;
