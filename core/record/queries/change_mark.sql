-- as: app
-- Something that is another after every change of a tenant's memories, and the database's time.
SELECT (SELECT max(seq) FROM event WHERE tenant = %(tenant)s) AS mark, now() AS moment;
