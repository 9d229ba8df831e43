-- as: app
-- No worker holds work of these any more: one that comes back finds its lease gone and writes nothing.
UPDATE outbox SET lease_owner = NULL, lease_until = NULL, claimed_seq = NULL, seq = seq + 1, ready_at = now()
WHERE tenant = %(tenant)s AND memory_id = ANY (%(ids)s::text[]) AND generation = ANY (%(generations)s::integer[])
  AND lease_owner IS NOT NULL;
