-- as: app
-- Rows whose whole content lies in an object, in the order of points, and how old their last change is.
SELECT embedding_id, id, archive_uri AS key, archive_sha256 AS sha256
FROM memory
WHERE tenant = %(tenant)s AND embedding_id > %(after)s AND deleted_at IS NULL AND content_sha256 IS NOT NULL
ORDER BY embedding_id
LIMIT %(limit)s;
