-- as: app
-- The objects of memories; `arriving` while a put of it may still be under way.
SELECT key, memory_id, live_until, (live_until > now()) AS arriving
FROM archive_object
WHERE tenant = %(tenant)s AND memory_id = ANY (%(ids)s::text[])
ORDER BY key;
