-- as: app
DELETE FROM data_key WHERE tenant = %(tenant)s RETURNING id;
