-- as: app
-- What stands beside memories in their threads, up to `reach` before and after each: points with how far away they
-- are. Two short scans of one index a memory, however long the thread is. Deleted ones do not stand anywhere.
-- In the same order each time.
SELECT asked.point, beside.point AS beside, beside.distance
FROM unnest(%(points)s::uuid[], %(threads)s::uuid[], %(places)s::bigint[], %(ids)s::text[])
     AS asked (point, thread, place, id)
CROSS JOIN LATERAL (
    (SELECT embedding_id AS point, row_number() OVER (ORDER BY place, id) AS distance
     FROM (SELECT embedding_id, place, id FROM memory
           WHERE tenant = %(tenant)s AND thread = asked.thread AND deleted_at IS NULL
             AND (place, id) > (asked.place, asked.id)
           ORDER BY place, id LIMIT %(reach)s) AS after)
    UNION ALL
    (SELECT embedding_id, -row_number() OVER (ORDER BY place DESC, id DESC)
     FROM (SELECT embedding_id, place, id FROM memory
           WHERE tenant = %(tenant)s AND thread = asked.thread AND deleted_at IS NULL
             AND (place, id) < (asked.place, asked.id)
           ORDER BY place DESC, id DESC LIMIT %(reach)s) AS before)
) AS beside
ORDER BY beside.point, asked.point;
