-- as: worker
-- A lease on entries of one generation that may go into a batch job: this state of the memory was not in three
-- already, nor waits longer than it may. Suspects (see outbox_claim) are left to the normal lane.
WITH picked AS MATERIALIZED (
    SELECT memory_id
    FROM outbox
    WHERE tenant = %(tenant)s AND generation = %(generation)s AND set_aside_at IS NULL AND attempts < 2
      AND ready_at <= now() AND (lease_until IS NULL OR lease_until <= now())
      AND (batch_seq IS DISTINCT FROM seq OR (batch_tries < 3 AND batch_until > now()))
    ORDER BY lane, ready_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox o
SET lease_owner = %(owner)s, lease_until = now() + %(lease)s::interval, claimed_seq = o.seq, attempts = o.attempts + 1
WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
  AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM picked))
RETURNING o.memory_id, o.seq, o.attempts;
