-- as: app
-- Bring set-aside entries back into the queue, as if they had just been enqueued.
WITH aside AS MATERIALIZED (
    SELECT o.generation, o.memory_id
    FROM outbox o
    WHERE o.tenant = %(tenant)s AND o.set_aside_at IS NOT NULL
      AND (%(ids)s::text[] IS NULL OR o.memory_id = ANY (%(ids)s::text[]))
    ORDER BY o.generation, o.memory_id
    FOR UPDATE
)
UPDATE outbox o
SET seq = o.seq + 1, enqueued_at = now(), ready_at = now(), attempts = 0, failures = 0,
    set_aside_at = NULL, reason = NULL
FROM aside a
WHERE o.tenant = %(tenant)s AND o.generation = a.generation AND o.memory_id = a.memory_id
RETURNING o.memory_id;
