-- as: app
-- Files of a folder that live memories were ingested from into a scope.
SELECT DISTINCT source_path AS path FROM memory
WHERE tenant = %(tenant)s AND source_key IS NOT NULL AND starts_with(source_path, %(folder)s) AND scope = %(scope)s
  AND deleted_at IS NULL
ORDER BY path;
