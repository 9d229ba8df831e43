-- as: worker
-- A lease on entries of one generation that were fed for batch jobs, are in none and may still be. Suspects (see
-- outbox_claim) are made ready for the normal lane, which claims them alone.
WITH suspect AS MATERIALIZED (
    SELECT memory_id
    FROM outbox
    WHERE tenant = %(tenant)s AND generation = %(generation)s AND batch_fed AND batch_item IS NULL
      AND set_aside_at IS NULL AND batch_seq = seq AND attempts >= 2 AND ready_at > now()
      AND (lease_until IS NULL OR lease_until <= now())
    ORDER BY memory_id
    FOR UPDATE SKIP LOCKED
), freed AS (
    UPDATE outbox o
    SET ready_at = now()
    WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
      AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM suspect))
), picked AS MATERIALIZED (
    SELECT memory_id
    FROM outbox
    WHERE tenant = %(tenant)s AND generation = %(generation)s AND batch_fed AND batch_item IS NULL
      AND set_aside_at IS NULL AND batch_seq = seq AND attempts < 2
      AND batch_tries < 3 AND batch_until > now() AND (lease_until IS NULL OR lease_until <= now())
    ORDER BY memory_id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox o
SET lease_owner = %(owner)s, lease_until = now() + %(lease)s::interval, claimed_seq = o.seq, attempts = o.attempts + 1
WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
  AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM picked))
RETURNING o.memory_id, o.seq, o.attempts;
