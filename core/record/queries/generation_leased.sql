-- as: app
-- Entries of a generation some worker still holds.
SELECT count(*) AS leased
FROM outbox
WHERE tenant = %(tenant)s AND generation = %(number)s AND lease_until > now();
