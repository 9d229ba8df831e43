-- as: app
-- The living memories that support a relation, in the order of ids behind `after`, and what was stated by hand (empty).
SELECT r.memory_id, r.weight
FROM relation r
WHERE r.tenant = %(tenant)s AND r.source = %(source)s::uuid AND r.target = %(target)s::uuid AND r.type = %(type)s
  AND (%(after)s::text IS NULL OR r.memory_id > %(after)s::text)
  AND (r.memory_id = '' OR (
      SELECT true FROM memory m WHERE m.tenant = %(tenant)s AND m.id = r.memory_id
        AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) LIMIT 1))
ORDER BY r.memory_id
LIMIT %(limit)s;
