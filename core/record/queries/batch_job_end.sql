-- as: app
-- The end of a job, with what became of its items.
UPDATE batch_job j
SET state = %(state)s, note = coalesce(%(note)s, j.note), ended_at = now(), lease_owner = NULL, lease_until = NULL,
    kept = i.kept, refused = i.refused, again = i.again
FROM (
    SELECT count(*) FILTER (WHERE state = 'kept') AS kept, count(*) FILTER (WHERE state = 'refused') AS refused,
           count(*) FILTER (WHERE state = 'again') AS again
    FROM batch_item
    WHERE tenant = %(tenant)s AND job = %(id)s
) AS i
WHERE j.tenant = %(tenant)s AND j.id = %(id)s AND j.lease_owner = %(owner)s AND j.ended_at IS NULL
RETURNING j.kept, j.refused, j.again;
