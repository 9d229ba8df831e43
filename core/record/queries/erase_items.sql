-- as: app
SELECT memory_id, embedding_id, version FROM erasure_item
WHERE tenant = %(tenant)s AND erasure = %(erasure)s AND memory_id > %(after)s
ORDER BY memory_id
LIMIT %(limit)s;
