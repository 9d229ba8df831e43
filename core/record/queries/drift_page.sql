-- as: app
-- What an index should hold, from one point to another, in the order of points: a page.
SELECT uuid_send(embedding_id) AS point, version
FROM memory
WHERE tenant = %(tenant)s AND embedding_id >= %(first)s::uuid AND embedding_id <= %(last)s::uuid
  AND deleted_at IS NULL AND tier <> 'archive'
ORDER BY embedding_id
LIMIT %(limit)s;
