-- as: app
-- The version that now lies in the object, whole, is no longer kept beside the record.
DELETE FROM memory_version v
USING unnest(%(ids)s::text[], %(versions)s::bigint[]) AS a (id, version)
WHERE v.tenant = %(tenant)s AND v.id = a.id AND v.version = a.version;
