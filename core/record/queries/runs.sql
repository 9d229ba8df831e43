-- as: worker
-- Who holds work under a lease: `left` is what is left of it, in seconds. Below 0 its holder has not been heard of since,
-- and what it held is anybody's. `begun` and `holder` are null where nobody notes them. A recovery that ended and one that
-- died look alike, so that only those under way are told.
SELECT tenant, 'embed' AS chore, generation, lease_owner AS holder, count(*) AS entries, NULL::timestamptz AS begun,
       extract(epoch FROM max(lease_until) - now())::float8 AS "left"
FROM outbox
WHERE lease_owner IS NOT NULL AND (%(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[]))
GROUP BY tenant, generation, lease_owner
UNION ALL
SELECT tenant, 'reindex', number, runner, NULL, registered_at, extract(epoch FROM runner_until - now())::float8
FROM generation
WHERE runner IS NOT NULL AND (%(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[]))
UNION ALL
SELECT tenant, 'swap', to_generation, owner, NULL, begun_at, extract(epoch FROM lease_until - now())::float8
FROM swap_intent
WHERE ended_at IS NULL AND (%(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[]))
UNION ALL
SELECT tenant, 'batch job', generation, lease_owner, inputs, created_at, extract(epoch FROM lease_until - now())::float8
FROM batch_job
WHERE ended_at IS NULL AND lease_owner IS NOT NULL
  AND (%(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[]))
UNION ALL
SELECT tenant, 'recover', generation, NULL, NULL, fed_at, extract(epoch FROM running_until - now())::float8
FROM recovery
WHERE running_until > now() AND (%(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[]))
ORDER BY tenant, chore, generation, holder;
