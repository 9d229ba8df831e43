-- as: app
-- Items (those given, or all of a job) that still await a vector get another state.
UPDATE batch_item
SET state = %(state)s
WHERE tenant = %(tenant)s AND job = %(job)s AND state = ANY (%(before)s::text[])
  AND (%(items)s::uuid[] IS NULL OR id = ANY (%(items)s::uuid[]))
RETURNING id;
