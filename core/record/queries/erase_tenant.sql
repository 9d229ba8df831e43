-- as: app
-- What is left of a tenant's record besides its memories, tombstones and generations.
WITH events AS (DELETE FROM event WHERE tenant = %(tenant)s),
     used AS (DELETE FROM embedding_use WHERE tenant = %(tenant)s)
DELETE FROM memory_version WHERE tenant = %(tenant)s;
