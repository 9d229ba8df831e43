-- as: app
-- Items behind `after`; with `left` only those not removed in this round.
SELECT i.memory_id, i.embedding_id, i.version
FROM erasure_item i
WHERE i.tenant = %(tenant)s AND i.erasure = %(erasure)s AND i.memory_id > %(after)s
  AND (NOT %(left)s OR i.removed_at IS NULL
       OR i.removed_at < (SELECT round_at FROM erasure WHERE tenant = %(tenant)s AND id = %(erasure)s))
ORDER BY i.memory_id
LIMIT %(limit)s;
