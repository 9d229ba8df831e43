-- as: app
-- Objects records point at, in the order of keys behind `after`, with the checksum each record keeps.
SELECT o.key, m.id, m.version, m.archive_sha256 AS sha256
FROM archive_object o
JOIN memory m ON m.tenant = o.tenant AND m.id = o.memory_id AND m.archive_uri = o.key
WHERE o.tenant = %(tenant)s AND o.key > %(after)s AND o.swept_at IS NULL AND m.deleted_at IS NULL
ORDER BY o.key
LIMIT %(limit)s;
