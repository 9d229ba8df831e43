-- as: app
-- The next page of one range into the outbox, and the cursor behind it: one statement, so that a page is fed or
-- it is not. Ranges others are feeding are left to them. What waits already is left as it is. With a `wait` the page is
-- for batch jobs alone until that is over.
WITH taken AS MATERIALIZED (
    -- No id is blank. What is written behind the last id from here on is written to this generation anyway.
    SELECT number, coalesce(cursor_id, after_id, '') AS behind,
           coalesce(last_id, (SELECT max(id) FROM memory WHERE tenant = %(tenant)s)) AS last_id
    FROM backfill_range
    WHERE tenant = %(tenant)s AND generation = %(generation)s AND done_at IS NULL
    ORDER BY number
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), page AS MATERIALIZED (
    SELECT p.id, p.indexed
    FROM taken t
    CROSS JOIN LATERAL (
        SELECT m.id, (m.deleted_at IS NULL AND m.tier <> 'archive') AS indexed
        FROM memory m
        WHERE m.tenant = %(tenant)s AND m.id > t.behind AND m.id <= t.last_id
        ORDER BY m.id
        LIMIT %(limit)s
    ) AS p
), fed AS (
    INSERT INTO outbox (tenant, generation, memory_id, lane, seq, ready_at, batch_fed, batch_seq, batch_until)
    SELECT %(tenant)s, %(generation)s, id, %(lane)s::smallint, 1, coalesce(now() + %(wait)s::interval, now()),
           %(wait)s::interval IS NOT NULL, CASE WHEN %(wait)s::interval IS NOT NULL THEN 1 END, now() + %(wait)s::interval
    FROM page WHERE indexed ORDER BY id
    ON CONFLICT (tenant, generation, memory_id) DO NOTHING
)
UPDATE backfill_range r
SET cursor_id = coalesce((SELECT max(id) FROM page), r.cursor_id),
    fed = r.fed + (SELECT count(*) FILTER (WHERE indexed) FROM page),
    done_at = CASE WHEN (SELECT count(*) FROM page) < %(limit)s THEN clock_timestamp() END
FROM taken t
WHERE r.tenant = %(tenant)s AND r.generation = %(generation)s AND r.number = t.number
RETURNING (SELECT count(*) FILTER (WHERE indexed) FROM page) AS fed;
