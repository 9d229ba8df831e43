-- as: app
-- How far a generation is: ranges left, and of what waits for it how much was enqueued before the last range ended, and how much is in batch jobs.
SELECT r.ranges, r.open, coalesce(r.fed, 0) AS fed, o.waiting, o.backfill, o.set_aside, o.behind, o.in_jobs
FROM (SELECT count(*) AS ranges, count(*) FILTER (WHERE done_at IS NULL) AS open, sum(fed)::bigint AS fed,
             max(done_at) AS ended
      FROM backfill_range WHERE tenant = %(tenant)s AND generation = %(generation)s) AS r
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE set_aside_at IS NULL) AS waiting,
           count(*) FILTER (WHERE set_aside_at IS NULL AND lane = %(lane)s::smallint) AS backfill,
           count(*) FILTER (WHERE set_aside_at IS NULL AND enqueued_at <= r.ended) AS behind,
           count(*) FILTER (WHERE set_aside_at IS NULL AND batch_item IS NOT NULL AND batch_seq = seq
                                  AND ready_at > now()) AS in_jobs,
           count(*) FILTER (WHERE set_aside_at IS NOT NULL) AS set_aside
    FROM outbox WHERE tenant = %(tenant)s AND generation = %(generation)s
) AS o;
