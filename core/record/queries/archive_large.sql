-- as: app
-- Rows that hold much content, in the order of ids. How long a text is is known without reading it.
SELECT id, version
FROM memory
WHERE tenant = %(tenant)s AND id > %(after)s AND deleted_at IS NULL AND tier <> 'archive' AND NOT keep
  AND content_sha256 IS NULL AND octet_length(content) > %(least)s
ORDER BY id
LIMIT %(limit)s;
