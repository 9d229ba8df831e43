-- as: app
-- A point that was found before keeps its time; one that was written again since is found anew.
INSERT INTO orphan AS o (tenant, generation, point, version, kind)
SELECT %(tenant)s, %(generation)s, point, version, kind
FROM unnest(%(points)s::uuid[], %(versions)s::bigint[], %(kinds)s::text[]) AS found (point, version, kind)
ORDER BY point
ON CONFLICT (tenant, generation, point) DO UPDATE
SET version = excluded.version, kind = excluded.kind,
    found_at = CASE WHEN o.version = excluded.version AND o.kind = excluded.kind THEN o.found_at ELSE now() END;
