-- as: app
-- Ids of the records an index should hold, behind `after`.
SELECT id
FROM memory
WHERE tenant = %(tenant)s AND id > %(after)s AND deleted_at IS NULL AND tier <> 'archive'
ORDER BY id
LIMIT %(limit)s;
