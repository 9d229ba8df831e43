-- as: app
-- A batch of the entities of a tenant that no relation names, stated or not, with their names.
WITH bare AS MATERIALIZED (
    SELECT e.id FROM entity e
    WHERE e.tenant = %(tenant)s
      AND (SELECT true FROM relation WHERE tenant = %(tenant)s AND source = e.id LIMIT 1) IS NULL
      AND (SELECT true FROM relation WHERE tenant = %(tenant)s AND target = e.id LIMIT 1) IS NULL
    LIMIT %(limit)s
), names AS (
    DELETE FROM entity_name WHERE tenant = %(tenant)s AND entity = ANY (ARRAY(SELECT id FROM bare))
), gone AS (
    DELETE FROM entity WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT id FROM bare)) RETURNING id
)
SELECT count(*) AS gone FROM gone;
