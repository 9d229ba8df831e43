-- as: app
-- Of a tenant's graph a batch of what no living memory supports: rows by their places, which nobody changes meanwhile
-- (graph_hold); a tenant's rows stand in one partition.
WITH dead AS MATERIALIZED (
    SELECT r.ctid AS place FROM relation r
    WHERE r.tenant = %(tenant)s
      AND (SELECT true FROM memory WHERE tenant = %(tenant)s AND id = r.memory_id AND deleted_at IS NULL LIMIT 1) IS NULL
    LIMIT %(limit)s
), gone AS (
    DELETE FROM relation WHERE tenant = %(tenant)s AND ctid = ANY (ARRAY(SELECT place FROM dead))
    RETURNING source
)
SELECT count(*) AS gone FROM gone;
