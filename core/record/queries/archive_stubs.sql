-- as: app
-- Stubs behind `after`, in the order of ids.
SELECT id FROM memory
WHERE tenant = %(tenant)s AND id > %(after)s AND tier = 'archive' AND deleted_at IS NULL
  AND (expires_at IS NULL OR expires_at > now())
  AND (%(session)s::text IS NULL OR session = %(session)s::text)
  AND (%(type)s::text IS NULL OR type = %(type)s::text)
ORDER BY id
LIMIT %(limit)s;
