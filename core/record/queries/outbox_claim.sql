-- as: worker
-- A lease on up to `limit` entries of one generation. What others hold or are just claiming is skipped.
-- An entry whose worker died twice is a suspect: it is claimed first and alone, so that if it kills once
-- more, it is known which one it was and no neighbour shares the blame. Those that died least go before.
WITH suspect AS MATERIALIZED (
    SELECT memory_id
    FROM outbox
    WHERE tenant = %(tenant)s AND generation = %(generation)s AND set_aside_at IS NULL AND attempts >= 2
      AND ready_at <= now() AND (lease_until IS NULL OR lease_until <= now())
    ORDER BY attempts, lane, ready_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), picked AS MATERIALIZED (
    SELECT memory_id
    FROM outbox
    WHERE tenant = %(tenant)s AND generation = %(generation)s AND set_aside_at IS NULL AND attempts < 2
      AND ready_at <= now() AND (lease_until IS NULL OR lease_until <= now())
      AND NOT EXISTS (SELECT FROM suspect)
    ORDER BY lane, ready_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox o
SET lease_owner = %(owner)s, lease_until = now() + %(lease)s::interval, claimed_seq = o.seq, attempts = o.attempts + 1
WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
  -- An array, not a join: the index is used however stale the table's statistics are.
  AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM suspect UNION ALL SELECT memory_id FROM picked))
RETURNING o.memory_id, o.seq, o.attempts;
