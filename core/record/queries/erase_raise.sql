-- as: app
-- Items of which a row stands that is meant: at the version asked for or below; or at a later one, by something that
-- was no writing (an archive, a restore); while the erasure is under way also deleted, or written and still what was
-- asked for. The item comes to that version, and is to be removed.
WITH meant AS MATERIALIZED (
    SELECT i.memory_id, m.version
    FROM unnest(%(ids)s::text[]) AS asked (id)
    JOIN erasure_item i ON i.tenant = %(tenant)s AND i.erasure = %(erasure)s AND i.memory_id = asked.id
    JOIN erasure e ON e.tenant = %(tenant)s AND e.id = %(erasure)s
    CROSS JOIN LATERAL (
        SELECT version, updated_at, deleted_at, session, subject FROM memory
        WHERE tenant = %(tenant)s AND id = i.memory_id LIMIT 1
    ) AS m
    WHERE m.version <= i.version OR m.updated_at <= i.meant_at
       OR (e.ended_at IS NULL
           AND (m.deleted_at IS NOT NULL OR %(kind)s IN ('all', 'id')
                OR (%(kind)s = 'session' AND m.session = %(value)s)
                OR (%(kind)s = 'subject' AND m.subject = %(value)s)))
)
UPDATE erasure_item i SET version = greatest(i.version, meant.version), removed_at = NULL
FROM meant
WHERE i.tenant = %(tenant)s AND i.erasure = %(erasure)s AND i.memory_id = meant.memory_id
RETURNING i.memory_id;
