-- as: app
DELETE FROM data_key WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) RETURNING id;
