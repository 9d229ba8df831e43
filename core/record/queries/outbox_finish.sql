-- as: app
-- Remove what is done: only if nothing was enqueued since the claim, and only under a lease still ours.
WITH done AS MATERIALIZED (
    SELECT o.memory_id
    FROM outbox o
    WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s AND o.memory_id = ANY (%(ids)s::text[])
      AND o.lease_owner = %(owner)s AND o.lease_until > now() AND o.seq = o.claimed_seq
    ORDER BY o.memory_id
    FOR UPDATE
)
DELETE FROM outbox o
WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
  AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM done))
RETURNING o.memory_id;
