-- as: app
-- The intent, before anything outside is touched; none if there is an open one.
INSERT INTO swap_intent (tenant, from_generation, to_generation, grace, owner, lease_until)
VALUES (%(tenant)s, %(from)s, %(to)s, %(grace)s, %(owner)s, now() + %(lease)s::interval)
ON CONFLICT DO NOTHING
RETURNING number, from_generation, to_generation, grace;
