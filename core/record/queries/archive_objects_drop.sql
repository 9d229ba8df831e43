-- as: app
DELETE FROM archive_object WHERE tenant = %(tenant)s AND key = ANY (%(keys)s::text[]);
