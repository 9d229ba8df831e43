-- as: app
-- Memories to one generation only: what waits already is raised, so that what is under way comes back.
INSERT INTO outbox AS o (tenant, generation, memory_id, lane)
SELECT %(tenant)s, %(generation)s, id, %(lane)s::smallint
FROM unnest(%(ids)s::text[]) AS asked (id)
ORDER BY id
ON CONFLICT (tenant, generation, memory_id) DO UPDATE
SET seq = o.seq + 1, lane = least(o.lane, excluded.lane), ready_at = now(), attempts = 0, failures = 0,
    set_aside_at = NULL, reason = NULL;
