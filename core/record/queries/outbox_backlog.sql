-- as: worker
-- Per tenant: live records, and the outbox of every generation that is not dropped; `in_batch` of what waits is held
-- for a batch job.
SELECT t.tenant,
       (SELECT count(*) FROM memory m
        WHERE m.tenant = t.tenant AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())) AS records,
       o.waiting, o.set_aside, o.oldest_waiting, o.in_batch
FROM (SELECT DISTINCT tenant FROM generation
      WHERE %(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[])) AS t
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE set_aside_at IS NULL) AS waiting,
           count(*) FILTER (WHERE set_aside_at IS NOT NULL) AS set_aside,
           min(enqueued_at) FILTER (WHERE set_aside_at IS NULL) AS oldest_waiting,
           count(*) FILTER (WHERE set_aside_at IS NULL AND batch_seq = seq AND ready_at > now()) AS in_batch
    FROM outbox WHERE outbox.tenant = t.tenant
) AS o
ORDER BY t.tenant;
