-- as: app
-- Asked before a side effect: which entries are still ours, and ours for a full lease from here.
UPDATE outbox
SET lease_until = now() + %(lease)s::interval
WHERE tenant = %(tenant)s AND generation = %(generation)s AND memory_id = ANY (%(ids)s::text[])
  AND lease_owner = %(owner)s AND lease_until > now()
RETURNING memory_id;
