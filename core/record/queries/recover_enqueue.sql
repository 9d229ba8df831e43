-- as: app
-- Index work of one generation, behind online writes. As in `enqueue`, each entry's seq rises.
INSERT INTO outbox AS o (tenant, generation, memory_id, lane)
SELECT g.tenant, g.number, i.id, 1
FROM generation g CROSS JOIN unnest(%(ids)s::text[]) AS i (id)
WHERE g.tenant = %(tenant)s AND g.number = %(generation)s AND g.state <> 'dropped'
ORDER BY i.id
ON CONFLICT (tenant, generation, memory_id) DO UPDATE
SET seq = o.seq + 1,
    lane = least(o.lane, excluded.lane),
    enqueued_at = CASE WHEN o.set_aside_at IS NULL THEN o.enqueued_at ELSE now() END,
    ready_at = now(), attempts = 0, failures = 0, set_aside_at = NULL, reason = NULL;
