-- as: worker
-- Tenants with work, most first. Each count ends at `most`, so that no tenant's queue is read to its end.
SELECT t.tenant, w.waiting, extract(epoch FROM now() - w.oldest)::float8 AS oldest, s.set_aside
FROM (SELECT DISTINCT tenant FROM generation) AS t
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(enqueued_at) AS oldest
    FROM (SELECT enqueued_at FROM outbox
          WHERE outbox.tenant = t.tenant AND set_aside_at IS NULL LIMIT %(most)s) AS one
) AS w
CROSS JOIN LATERAL (
    SELECT count(*) AS set_aside
    FROM (SELECT FROM outbox WHERE outbox.tenant = t.tenant AND set_aside_at IS NOT NULL LIMIT %(most)s) AS one
) AS s
WHERE w.waiting > 0 OR s.set_aside > 0
ORDER BY w.waiting DESC, s.set_aside DESC, t.tenant;
