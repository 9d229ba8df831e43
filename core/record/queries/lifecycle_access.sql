-- as: app
-- Times of access, in the order of ids; an age is how long ago by the reader's clock. What is known to the hour
-- is not written again, and what somebody else is just changing is left out: both are of no weight for policies.
WITH seen AS MATERIALIZED (
    SELECT m.id, now() - asked.age AS at
    FROM unnest(%(ids)s::text[], %(ages)s::interval[]) AS asked (id, age)
    JOIN memory m ON m.tenant = %(tenant)s AND m.id = asked.id
    WHERE m.deleted_at IS NULL AND (m.accessed_at IS NULL OR m.accessed_at < now() - asked.age - interval '1 hour')
    ORDER BY m.id
    FOR UPDATE OF m SKIP LOCKED
)
UPDATE memory m SET accessed_at = seen.at FROM seen WHERE m.tenant = %(tenant)s AND m.id = seen.id;
