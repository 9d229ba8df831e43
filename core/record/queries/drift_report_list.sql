-- as: worker
-- The newest reports of each tenant, newest first.
SELECT t.tenant, r.store, r.generation, r.depth, r.verdict, r.records, r.points, r.findings, r.note, r.dry, r.at
FROM (SELECT DISTINCT tenant FROM generation
      WHERE %(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[])) AS t
CROSS JOIN LATERAL (
    SELECT store, generation, depth, verdict, records, points, findings, note, dry, at
    FROM drift_report WHERE tenant = t.tenant ORDER BY at DESC LIMIT %(limit)s
) AS r
ORDER BY t.tenant, r.at DESC;
