-- as: app
SELECT id, wrapped, master, in_use, made_at FROM data_key WHERE tenant = %(tenant)s ORDER BY made_at, id;
