-- as: app
SELECT id, wrapped, master FROM data_key WHERE tenant = %(tenant)s AND id = %(id)s;
