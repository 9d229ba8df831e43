-- as: app
-- Under the barrier: no writer lists it any more. Its work and its ranges go with it.
WITH gone AS (
    UPDATE generation
    SET state = 'dropped', changed_at = now(), dropping_at = NULL
    WHERE tenant = %(tenant)s AND number = %(number)s AND state IN ('retiring', 'aborted') AND dropping_at IS NOT NULL
    RETURNING tenant, number
), work AS (
    DELETE FROM outbox o USING gone g WHERE o.tenant = g.tenant AND o.generation = g.number
), ranges AS (
    DELETE FROM backfill_range r USING gone g WHERE r.tenant = g.tenant AND r.generation = g.number
)
SELECT number FROM gone;
