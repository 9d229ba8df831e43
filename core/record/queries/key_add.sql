-- as: app
-- Of two that make a tenant's first key, one wins; the other finds that one afterwards.
INSERT INTO data_key (tenant, id, wrapped, master) VALUES (%(tenant)s, %(id)s, %(wrapped)s, %(master)s)
ON CONFLICT DO NOTHING;
