-- as: app
INSERT INTO recovery (tenant, generation) VALUES (%(tenant)s, %(generation)s)
ON CONFLICT (tenant, generation) DO UPDATE SET fed_at = now();
