-- as: app
-- Entries that are held for these items are ready now. `unsent`: 1 when nothing was sent of them, which is no try.
-- `again`: they have no vector; what a reindex fed for batch jobs then waits for the next one, while it may.
WITH held AS MATERIALIZED (
    SELECT o.generation, o.memory_id,
           %(again)s::boolean AND o.batch_fed AND o.batch_until > now()
           AND o.batch_tries < 3 + %(unsent)s::integer AS for_jobs
    FROM outbox o
    WHERE o.tenant = %(tenant)s AND o.batch_item = ANY (%(items)s::uuid[])
      AND o.batch_seq = o.seq AND o.set_aside_at IS NULL AND o.ready_at > now()
    ORDER BY o.generation, o.memory_id
    FOR UPDATE
)
UPDATE outbox o
SET ready_at = CASE WHEN h.for_jobs THEN o.batch_until ELSE now() END,
    batch_item = CASE WHEN h.for_jobs THEN NULL ELSE o.batch_item END,
    batch_tries = greatest(o.batch_tries - %(unsent)s::integer, 0)
FROM held h
WHERE o.tenant = %(tenant)s AND o.generation = h.generation AND o.memory_id = h.memory_id
RETURNING o.memory_id;
