-- as: app
-- Objects of the store that nobody announced: they are marked here, so that nobody can announce them meanwhile.
INSERT INTO archive_object (tenant, key, memory_id, version, live_until, swept_at)
SELECT %(tenant)s, k.key, k.id, k.version, now() - %(grace)s::interval, now()
FROM unnest(%(keys)s::text[], %(ids)s::text[], %(versions)s::bigint[]) AS k (key, id, version)
WHERE NOT EXISTS (SELECT FROM memory m WHERE m.tenant = %(tenant)s AND m.id = k.id AND m.archive_uri = k.key)
ORDER BY k.key
ON CONFLICT (tenant, key) DO NOTHING
RETURNING key;
