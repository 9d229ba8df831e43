-- as: app
-- Set the entries of refused items aside, each with the reason of its item (items and reasons in step), unless they
-- were enqueued again or are just being worked on.
WITH held AS MATERIALIZED (
    SELECT o.generation, o.memory_id
    FROM outbox o
    WHERE o.tenant = %(tenant)s AND o.batch_item = ANY (%(items)s::uuid[])
      AND o.batch_seq = o.seq AND o.set_aside_at IS NULL AND (o.lease_until IS NULL OR o.lease_until <= now())
    ORDER BY o.generation, o.memory_id
    FOR UPDATE
)
UPDATE outbox o
SET set_aside_at = now(), ready_at = now(),
    reason = (%(reasons)s::text[])[array_position(%(items)s::uuid[], o.batch_item)]
FROM held h
WHERE o.tenant = %(tenant)s AND o.generation = h.generation AND o.memory_id = h.memory_id
RETURNING o.memory_id;
