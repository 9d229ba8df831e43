-- as: app
-- Take these memories in: all versions up to the newest that is there now are meant. One whose rows went since the page
-- was read was purged from every store before.
WITH found AS MATERIALIZED (
    SELECT p.id, coalesce(m.embedding_id, v.embedding_id) AS embedding_id, coalesce(m.version, v.version) AS version
    FROM unnest(%(ids)s::text[]) AS p (id)
    LEFT JOIN LATERAL (
        SELECT embedding_id, version FROM memory WHERE tenant = %(tenant)s AND id = p.id LIMIT 1
    ) AS m ON true
    LEFT JOIN LATERAL (
        SELECT (record ->> 'embedding_id')::uuid AS embedding_id, version FROM memory_version
        WHERE tenant = %(tenant)s AND id = p.id
        ORDER BY version DESC LIMIT 1
    ) AS v ON true
    WHERE coalesce(m.version, v.version) IS NOT NULL
)
INSERT INTO erasure_item AS i (tenant, erasure, memory_id, embedding_id, version, meant_at)
SELECT e.tenant, e.id, found.id, found.embedding_id, found.version, e.begun_at
FROM found JOIN erasure e ON e.tenant = %(tenant)s AND e.id = %(erasure)s
ORDER BY found.id
ON CONFLICT (tenant, erasure, memory_id) DO UPDATE
SET version = greatest(i.version, excluded.version), meant_at = excluded.meant_at, removed_at = NULL;
