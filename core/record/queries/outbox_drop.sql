-- as: app
-- Give set-aside entries up: the memory stays in the record, and out of the index until it changes.
WITH aside AS MATERIALIZED (
    SELECT o.generation, o.memory_id
    FROM outbox o
    WHERE o.tenant = %(tenant)s AND o.set_aside_at IS NOT NULL AND o.memory_id = ANY (%(ids)s::text[])
    ORDER BY o.generation, o.memory_id
    FOR UPDATE
)
DELETE FROM outbox o
USING aside a
WHERE o.tenant = %(tenant)s AND o.generation = a.generation AND o.memory_id = a.memory_id
RETURNING o.memory_id;
