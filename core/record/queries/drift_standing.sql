-- as: app
-- The second look at points that disagreed: what the record says of them now, whether it has said so for the minimum
-- age, and whether work of theirs waits.
SELECT asked.point, m.id, m.version, coalesce(m.deleted_at IS NULL AND m.tier <> 'archive', false) AS indexed,
       coalesce(m.updated_at <= now() - %(age)s::interval, true) AS settled,
       o.memory_id IS NOT NULL AS waits, o.set_aside_at IS NOT NULL AS aside
FROM unnest(%(points)s::uuid[]) AS asked (point)
LEFT JOIN LATERAL (
    SELECT id, version, deleted_at, tier, updated_at FROM memory
    WHERE tenant = %(tenant)s AND embedding_id = asked.point LIMIT 1
) AS m ON true
LEFT JOIN LATERAL (
    SELECT memory_id, set_aside_at FROM outbox
    WHERE tenant = %(tenant)s AND generation = %(generation)s AND memory_id = m.id LIMIT 1
) AS o ON true;
