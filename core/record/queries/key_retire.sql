-- as: app
UPDATE data_key SET in_use = false WHERE tenant = %(tenant)s AND in_use RETURNING id;
