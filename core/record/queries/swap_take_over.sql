-- as: app
-- An intent whose owner has not been heard of for its whole lease.
UPDATE swap_intent
SET owner = %(owner)s, lease_until = now() + %(lease)s::interval
WHERE tenant = %(tenant)s AND number = %(number)s AND ended_at IS NULL AND lease_until <= now()
RETURNING number;
