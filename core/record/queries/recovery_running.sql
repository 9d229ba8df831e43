-- as: app
-- A recovery is under way, for so long from now.
INSERT INTO recovery (tenant, generation, running_until)
VALUES (%(tenant)s, %(generation)s, now() + %(keep)s::interval)
ON CONFLICT (tenant, generation) DO UPDATE SET running_until = excluded.running_until;
