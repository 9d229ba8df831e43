-- as: worker
-- Recoveries of which nothing waits any more, whatever was written since.
DELETE FROM recovery r
WHERE NOT EXISTS (
    SELECT FROM outbox o
    WHERE o.tenant = r.tenant AND o.generation = r.generation AND o.set_aside_at IS NULL AND o.enqueued_at <= r.fed_at
)
RETURNING r.tenant, r.generation;
