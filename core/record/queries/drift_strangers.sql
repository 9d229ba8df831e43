-- as: app
-- Of these objects those that nobody announced and no record points at.
SELECT asked.key
FROM unnest(%(keys)s::text[], %(ids)s::text[]) AS asked (key, id)
WHERE NOT EXISTS (SELECT FROM archive_object a WHERE a.tenant = %(tenant)s AND a.key = asked.key)
  AND NOT EXISTS (SELECT FROM memory m WHERE m.tenant = %(tenant)s AND m.id = asked.id AND m.archive_uri = asked.key);
