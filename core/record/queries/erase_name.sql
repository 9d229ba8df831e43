-- as: app
-- An id that is named is looked for in every store, whether the record knows of it or not.
INSERT INTO erasure_item AS i (tenant, erasure, memory_id, embedding_id, version, meant_at)
SELECT e.tenant, e.id, %(value)s, %(point)s::uuid,
       coalesce((SELECT version FROM memory WHERE tenant = %(tenant)s AND id = %(value)s),
                (SELECT version FROM tombstone WHERE tenant = %(tenant)s AND id = %(value)s), 9007199254740990),
       e.begun_at
FROM erasure e WHERE e.tenant = %(tenant)s AND e.id = %(erasure)s
ON CONFLICT (tenant, erasure, memory_id) DO UPDATE
SET version = greatest(i.version, excluded.version), meant_at = excluded.meant_at, removed_at = NULL;
