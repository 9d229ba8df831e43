-- as: worker
-- Every generation with what waits for it. `behind` is unknown to nobody: an empty outbox is 0.
SELECT g.tenant, g.number, g.index_group, g.state, g.space, g.verdict, g.reason, g.registered_at, g.changed_at, g.retire_at,
       g.runner_until > now() AS running,
       coalesce(o.waiting, 0) AS waiting, coalesce(o.set_aside, 0) AS set_aside,
       coalesce(r.fed, 0) AS fed, coalesce(r.open, 0) AS ranges_left
FROM generation g
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE set_aside_at IS NULL) AS waiting,
           count(*) FILTER (WHERE set_aside_at IS NOT NULL) AS set_aside
    FROM outbox WHERE outbox.tenant = g.tenant AND outbox.generation = g.number
) AS o ON true
LEFT JOIN LATERAL (
    SELECT sum(fed)::bigint AS fed, count(*) FILTER (WHERE done_at IS NULL) AS open
    FROM backfill_range b WHERE b.tenant = g.tenant AND b.generation = g.number
) AS r ON true
WHERE (%(tenants)s::text[] IS NULL OR g.tenant = ANY (%(tenants)s::text[]))
  AND (%(dropped)s::boolean OR g.state <> 'dropped')
ORDER BY g.tenant, g.number;
