-- as: app
SELECT tenant, generation, memory_id, reason, set_aside_at AS since
FROM outbox
WHERE tenant = %(tenant)s AND set_aside_at IS NOT NULL
ORDER BY set_aside_at, memory_id
LIMIT %(limit)s;
