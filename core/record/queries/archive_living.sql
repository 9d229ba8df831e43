-- as: app
-- Which of these objects are announced for a memory that is there.
SELECT o.key FROM archive_object o
WHERE o.tenant = %(tenant)s AND o.key = ANY (%(keys)s::text[])
  AND EXISTS (SELECT FROM memory m WHERE m.tenant = %(tenant)s AND m.id = o.memory_id);
