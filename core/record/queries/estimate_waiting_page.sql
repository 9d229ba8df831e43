-- as: app
-- Ids of entries of a generation that can be worked on, behind `after`: not what is set aside or held for a batch job.
SELECT memory_id AS id
FROM outbox
WHERE tenant = %(tenant)s AND generation = %(generation)s AND memory_id > %(after)s
  AND set_aside_at IS NULL AND (batch_seq IS DISTINCT FROM seq OR ready_at <= now())
ORDER BY memory_id
LIMIT %(limit)s;
