-- as: app
-- Everything it comes to: memories, deleted ones too, and those of which an older version did. All versions up to
-- the newest that is there now are meant.
INSERT INTO erasure_item AS i (tenant, erasure, memory_id, embedding_id, version)
SELECT %(tenant)s, %(erasure)s, found.id, found.embedding_id, max(found.version)
FROM (
    SELECT id, embedding_id, version FROM memory
    WHERE tenant = %(tenant)s
      AND (%(kind)s = 'all' OR (%(kind)s = 'session' AND session = %(value)s)
           OR (%(kind)s = 'subject' AND subject = %(value)s))
    UNION ALL
    SELECT v.id, (v.record ->> 'embedding_id')::uuid, coalesce(m.version, v.version)
    FROM memory_version v LEFT JOIN memory m ON m.tenant = v.tenant AND m.id = v.id
    WHERE v.tenant = %(tenant)s
      AND (%(kind)s = 'all' OR (%(kind)s = 'session' AND v.record ->> 'session' = %(value)s)
           OR (%(kind)s = 'subject' AND v.record ->> 'subject' = %(value)s))
    UNION ALL
    SELECT %(value)s, %(point)s::uuid,
           coalesce((SELECT version FROM memory WHERE tenant = %(tenant)s AND id = %(value)s),
                    (SELECT version FROM tombstone WHERE tenant = %(tenant)s AND id = %(value)s), 9007199254740990)
    WHERE %(kind)s = 'id'
) AS found
GROUP BY found.id, found.embedding_id
ON CONFLICT (tenant, erasure, memory_id) DO UPDATE SET version = greatest(i.version, excluded.version);
