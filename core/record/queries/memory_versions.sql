-- as: app
-- The second look: what the record says now of memories an index was just brought up to.
SELECT id, version, (deleted_at IS NULL AND tier <> 'archive') AS indexed
FROM memory
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);
