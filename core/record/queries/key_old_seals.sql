-- as: app
-- Sensitive memories sealed under another key than the one in use, behind `after`; a stub stays as its object is.
SELECT m.id
FROM memory m
WHERE m.tenant = %(tenant)s AND m.key_id IS NOT NULL AND m.key_id <> %(key_id)s AND m.id > %(after)s
  AND m.content_sha256 IS NULL AND m.deleted_at IS NULL
ORDER BY m.id
LIMIT %(limit)s;
