-- as: app
-- Truths about a stretch of live memories, in the order of points; no content leaves.
SELECT id, embedding_id AS point, version, importance, tier, scope <> '' AS scope_is_given, type <> '' AS type_is_given,
       (content ~ '\S' OR content_sha256 IS NOT NULL OR archive_sha256 IS NOT NULL OR key_id IS NOT NULL) AS has_text
FROM memory
WHERE tenant = %(tenant)s AND embedding_id > %(after)s::uuid AND deleted_at IS NULL
ORDER BY embedding_id
LIMIT %(limit)s;
