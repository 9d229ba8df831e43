-- as: app
-- Live memories that were ingested from one file.
SELECT id FROM memory
WHERE tenant = %(tenant)s AND source_key = md5(%(path)s) AND source_path = %(path)s AND scope = %(scope)s
  AND deleted_at IS NULL
ORDER BY id;
