-- as: worker
-- Whose turn it is: generations with work that can be claimed now, online writes before backfill, and
-- among those the one served least recently. The probes stop at the first claimable row of a lane.
UPDATE generation
SET served_at = clock_timestamp()
WHERE (tenant, number) = (
    SELECT g.tenant, g.number
    FROM generation g
    CROSS JOIN LATERAL (
        SELECT o.lane
        FROM outbox o
        WHERE o.tenant = g.tenant AND o.generation = g.number AND o.set_aside_at IS NULL
          AND o.ready_at <= now() AND (o.lease_until IS NULL OR o.lease_until <= now())
        ORDER BY o.lane
        LIMIT 1
    ) AS first
    WHERE g.state <> 'dropped' AND g.dropping_at IS NULL
      AND (%(tenants)s::text[] IS NULL OR g.tenant = ANY (%(tenants)s::text[]))
      AND NOT (g.fingerprint = ANY (%(without)s::text[]))
    ORDER BY first.lane, g.served_at
    LIMIT 1
)
RETURNING tenant, number, index_group, space, state,
          EXISTS (SELECT FROM recovery r WHERE r.tenant = generation.tenant AND r.generation = generation.number) AS recovering;
