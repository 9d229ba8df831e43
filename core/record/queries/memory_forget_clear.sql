-- as: app
DELETE FROM memory_version v
USING unnest(%(ids)s::text[]) AS asked (id)
WHERE v.tenant = %(tenant)s AND v.id = asked.id AND v.record ->> 'key_id' IS NULL;
