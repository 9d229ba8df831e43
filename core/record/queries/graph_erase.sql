-- as: app
-- Of a tenant's graph everything that no living memory supports.
WITH dead AS MATERIALIZED (
    SELECT r.source, r.target, r.type, r.memory_id FROM relation r
    WHERE r.tenant = %(tenant)s
      AND NOT EXISTS (SELECT FROM memory m
                      WHERE m.tenant = %(tenant)s AND m.id = r.memory_id AND m.deleted_at IS NULL)
    LIMIT %(limit)s
), gone AS (
    DELETE FROM relation r USING dead d
    WHERE r.tenant = %(tenant)s AND (r.source, r.target, r.type, r.memory_id) = (d.source, d.target, d.type, d.memory_id)
    RETURNING r.source
)
SELECT count(*) AS gone FROM gone;
