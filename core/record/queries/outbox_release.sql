-- as: app
-- Give back entries, each to be ready again after a wait: at once when something newer was enqueued. An
-- orderly end is no lost attempt. What was brought up to date (`done`) and changed meanwhile waits from now on: all
-- that was enqueued before is done, which is what a watermark asks. What is kept for batch jobs stays so.
WITH ours AS MATERIALIZED (
    SELECT o.memory_id
    FROM outbox o
    WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s AND o.memory_id = ANY (%(ids)s::text[])
      AND o.lease_owner = %(owner)s
    ORDER BY o.memory_id
    FOR UPDATE
)
UPDATE outbox o
SET lease_owner = NULL, lease_until = NULL, claimed_seq = NULL,
    attempts = greatest(attempts - 1, 0),
    failures = CASE WHEN seq = claimed_seq THEN least(failures + %(failed)s::integer, 30) ELSE failures END,
    enqueued_at = CASE WHEN seq <> claimed_seq AND %(done)s::boolean THEN now() ELSE enqueued_at END,
    ready_at = CASE WHEN seq = claimed_seq
                    THEN greatest(ready_at, now() + %(wait)s::interval * least(power(2, failures), 64) * (0.5 + random() / 2))
                    ELSE ready_at END
WHERE o.tenant = %(tenant)s AND o.generation = %(generation)s
  AND o.memory_id = ANY (ARRAY(SELECT memory_id FROM ours));
