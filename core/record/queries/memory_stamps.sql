-- as: app
-- What an index should hold, in the order of points: a page behind `after`.
SELECT embedding_id, id, version
FROM memory
WHERE tenant = %(tenant)s AND embedding_id > %(after)s::uuid
  AND deleted_at IS NULL AND tier <> 'archive'
ORDER BY embedding_id
LIMIT %(limit)s;
