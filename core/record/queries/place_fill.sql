-- as: app
-- Places for turns written before there were any: the caller's position, else counted by time, thread by thread.
UPDATE memory m
SET place = c.place
FROM (
    SELECT b.id, coalesce(b.position,
           coalesce((SELECT max(p.place) FROM memory p
                     WHERE p.tenant = %(tenant)s AND p.thread = b.thread AND p.deleted_at IS NULL), -1)
           + row_number() OVER (PARTITION BY b.thread, b.position IS NULL ORDER BY b.created_at, b.id)) AS place
    FROM memory b
    WHERE b.tenant = %(tenant)s AND b.place IS NULL AND b.thread IN (
        SELECT DISTINCT w.thread FROM memory w
        WHERE w.tenant = %(tenant)s AND w.thread IS NOT NULL AND w.place IS NULL
        LIMIT %(threads)s)
) AS c
WHERE m.tenant = %(tenant)s AND m.id = c.id;
