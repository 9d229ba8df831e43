-- as: app
-- What would be embedded of an index's memories: a page behind `after`.
SELECT id, title, content
FROM memory
WHERE tenant = %(tenant)s AND id > %(after)s AND deleted_at IS NULL AND tier <> 'archive'
ORDER BY id
LIMIT %(limit)s;
