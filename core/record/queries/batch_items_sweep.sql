-- as: app
-- Items of ended jobs that nobody needs any more: without a vector, or with one whose entries are done, or kept too long.
DELETE FROM batch_item
WHERE tenant = %(tenant)s AND id = ANY (ARRAY(
    SELECT i.id
    FROM batch_item i JOIN batch_job j ON j.tenant = i.tenant AND j.id = i.job
    WHERE i.tenant = %(tenant)s AND j.tenant = %(tenant)s AND j.ended_at IS NOT NULL
      AND (i.vector IS NULL OR j.ended_at < now() - %(keep)s::interval
           OR NOT EXISTS (SELECT FROM outbox o WHERE o.tenant = %(tenant)s AND o.batch_item = i.id AND o.batch_seq = o.seq))
    LIMIT %(limit)s));
