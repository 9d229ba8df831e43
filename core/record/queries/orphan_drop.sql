-- as: app
DELETE FROM orphan WHERE tenant = %(tenant)s AND generation = %(generation)s AND point = ANY (%(points)s::uuid[]);
