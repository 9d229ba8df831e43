-- as: app
-- What is left of the work of a dropped generation, so much at a time. Nobody claims it or adds to it.
WITH gone AS (
    SELECT number FROM generation WHERE tenant = %(tenant)s AND number = %(number)s AND state = 'dropped'
), piece AS MATERIALIZED (
    SELECT o.memory_id FROM gone g
    CROSS JOIN LATERAL (
        SELECT memory_id FROM outbox WHERE tenant = %(tenant)s AND generation = g.number LIMIT %(limit)s
    ) AS o
), ranges AS (
    DELETE FROM backfill_range r USING gone g WHERE r.tenant = %(tenant)s AND r.generation = g.number
)
DELETE FROM outbox
WHERE tenant = %(tenant)s AND generation = %(number)s AND memory_id = ANY (ARRAY(SELECT memory_id FROM piece));
