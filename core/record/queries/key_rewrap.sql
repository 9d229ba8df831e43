-- as: app
UPDATE data_key SET wrapped = %(wrapped)s, master = %(master)s WHERE tenant = %(tenant)s AND id = %(id)s;
