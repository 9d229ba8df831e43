-- as: worker
-- A lease on up to `limit` entries of one generation. What others hold or are just claiming is skipped.
WITH picked AS MATERIALIZED (
    SELECT memory_id
    FROM outbox
    WHERE tenant = %(tenant)s AND generation = %(generation)s AND set_aside_at IS NULL
      AND ready_at <= now() AND (lease_until IS NULL OR lease_until <= now())
    ORDER BY lane, ready_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox o
SET lease_owner = %(owner)s, lease_until = now() + %(lease)s::interval, claimed_seq = o.seq, attempts = o.attempts + 1
WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
  -- An array, not a join: the index is used however stale the table's statistics are.
  AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM picked))
RETURNING o.memory_id, o.seq, o.attempts;
