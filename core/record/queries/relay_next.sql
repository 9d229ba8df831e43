-- as: app
SELECT e.seq, e.kind, e.memory_id, e.version, e.at
FROM event e
WHERE e.tenant = %(tenant)s AND e.seq <= %(safe)s
  AND e.seq > coalesce((SELECT r.seq FROM event_relay r WHERE r.tenant = %(tenant)s), 0)
ORDER BY e.seq
LIMIT %(limit)s;
