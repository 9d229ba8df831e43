-- as: app
INSERT INTO fence AS f (tenant, name, number) VALUES (%(tenant)s, %(name)s, 1)
ON CONFLICT (tenant, name) DO UPDATE SET number = f.number + 1, taken_at = now()
RETURNING number;
