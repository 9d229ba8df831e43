-- as: app
-- Until when a worker or a put that began before may bring something back: noted once the rows are gone.
UPDATE erasure
SET pending_until = greatest(
    pending_until,
    (SELECT max(lease_until) FROM outbox WHERE tenant = %(tenant)s AND memory_id = ANY (%(ids)s::text[])
                                           AND generation = ANY (%(generations)s::integer[])),
    (SELECT max(live_until) FROM archive_object WHERE tenant = %(tenant)s AND memory_id = ANY (%(ids)s::text[])))
WHERE tenant = %(tenant)s AND id = %(erasure)s;
