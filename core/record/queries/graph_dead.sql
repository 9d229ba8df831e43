-- as: app
-- Deleted memories that still have relations, oldest first.
SELECT m.id
FROM memory m
WHERE m.tenant = %(tenant)s AND m.deleted_at IS NOT NULL
  AND (SELECT true FROM relation r WHERE r.tenant = %(tenant)s AND r.memory_id = m.id LIMIT 1)
ORDER BY m.deleted_at, m.id
LIMIT %(limit)s;
