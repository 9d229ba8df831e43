-- as: app
-- Asked before a side effect: which entries are still ours, and ours for a full lease from here.
WITH ours AS MATERIALIZED (
    SELECT o.memory_id
    FROM outbox o
    WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s AND o.memory_id = ANY (%(ids)s::text[])
      AND o.lease_owner = %(owner)s AND o.lease_until > now()
    ORDER BY o.memory_id
    FOR UPDATE
)
UPDATE outbox o
SET lease_until = now() + %(lease)s::interval
WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
  AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM ours))
RETURNING o.memory_id;
