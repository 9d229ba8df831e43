-- as: app
-- A page of the record in the order of point ids, tombstones included: what a point's payload is made of, no content.
-- No labels are null: parsing as many empty objects takes as long as the rest of the row.
SELECT tenant, id, embedding_id, version, scope, project, agent, session, role, type, tags, nullif(labels, '{}') AS labels, importance,
       expires_at, created_at, (extract(epoch FROM updated_at) * 1000000)::bigint AS moment,
       (deleted_at IS NULL AND tier <> 'archive') AS indexed
FROM memory
WHERE tenant = %(tenant)s AND embedding_id > %(after)s
ORDER BY embedding_id
LIMIT %(limit)s;
