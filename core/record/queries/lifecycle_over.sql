-- as: app
-- How many memories are at their end, by type, with some ids: what a run would reap.
SELECT type, count(*) AS memories, (array_agg(id ORDER BY id))[1:5] AS examples
FROM memory m
LEFT JOIN unnest(%(types)s::text[], %(lives)s::interval[]) AS named (type_named, life) ON named.type_named = m.type
WHERE m.tenant = %(tenant)s AND m.deleted_at IS NULL AND NOT m.keep
  AND (m.expires_at <= now()
       OR m.created_at <= now() - CASE WHEN named.type_named IS NULL THEN %(life)s::interval ELSE named.life END)
GROUP BY type
ORDER BY type;
