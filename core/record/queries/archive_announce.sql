-- as: app
-- Puts that are about to start. Announced again, one lives longer; one that is just being swept is not taken.
INSERT INTO archive_object AS o (tenant, key, memory_id, version, bytes, live_until)
SELECT %(tenant)s, a.key, a.id, a.version, a.bytes, now() + %(live)s::interval
FROM unnest(%(keys)s::text[], %(ids)s::text[], %(versions)s::bigint[], %(bytes)s::bigint[])
    AS a (key, id, version, bytes)
ORDER BY a.key
ON CONFLICT (tenant, key) DO UPDATE
SET live_until = greatest(o.live_until, excluded.live_until), bytes = excluded.bytes
WHERE o.swept_at IS NULL
RETURNING key;
