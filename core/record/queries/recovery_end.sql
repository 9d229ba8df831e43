-- as: worker
-- Recoveries of which nothing waits any more, whatever was written since.
DELETE FROM recovery r
WHERE (r.running_until IS NULL OR r.running_until < now()) AND NOT EXISTS (
    SELECT FROM outbox o
    WHERE o.tenant = r.tenant AND o.generation = r.generation AND o.set_aside_at IS NULL AND o.enqueued_at <= r.fed_at
)
RETURNING r.tenant, r.generation;
