-- as: worker
-- Per tenant: its live generation, how many memories an index should hold, and how many of those still wait.
SELECT g.tenant, g.number, g.index_group, g.space, g.state,
       (SELECT count(*) FROM memory m
        WHERE m.tenant = g.tenant AND m.deleted_at IS NULL AND m.tier <> 'archive') AS wanted,
       (SELECT count(*) FROM outbox o WHERE o.tenant = g.tenant AND o.generation = g.number) AS waiting
FROM generation g
WHERE g.state = 'live' AND (%(tenants)s::text[] IS NULL OR g.tenant = ANY (%(tenants)s::text[]))
ORDER BY g.tenant
LIMIT %(limit)s;
