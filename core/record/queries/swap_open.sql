-- as: app
SELECT number, from_generation, to_generation, grace, lease_until > now() AS held
FROM swap_intent
WHERE tenant = %(tenant)s AND ended_at IS NULL;
