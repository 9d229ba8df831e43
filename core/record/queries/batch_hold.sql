-- as: app
-- Hold claimed entries for items of a job (ids and items in step) until the deadline, their lease given up. Not those
-- that another worker took over, or that were enqueued again: what they say now may be another text. An entry that
-- was in a job before keeps its first deadline.
WITH ours AS MATERIALIZED (
    SELECT o.memory_id
    FROM outbox o
    WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s AND o.memory_id = ANY (%(ids)s::text[])
      AND o.lease_owner = %(owner)s AND o.lease_until > now() AND o.seq = o.claimed_seq
    ORDER BY o.memory_id
    FOR UPDATE
)
UPDATE outbox o
SET lease_owner = NULL, lease_until = NULL, claimed_seq = NULL, attempts = greatest(o.attempts - 1, 0),
    batch_item = (%(items)s::uuid[])[array_position(%(ids)s::text[], o.memory_id)],
    batch_tries = CASE WHEN o.batch_seq = o.seq THEN o.batch_tries + 1 ELSE 1 END,
    batch_fed = o.batch_fed AND o.batch_seq = o.seq,
    batch_until = CASE WHEN o.batch_seq = o.seq AND o.batch_tries > 0 THEN o.batch_until ELSE %(deadline)s END,
    ready_at = CASE WHEN o.batch_seq = o.seq AND o.batch_tries > 0 THEN o.batch_until ELSE %(deadline)s END,
    batch_seq = o.seq
WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
  AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM ours))
RETURNING o.memory_id, o.batch_item;
