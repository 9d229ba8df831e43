-- as: app
-- A batch of the entities of a tenant that no relation names, stated or not, with their names.
WITH bare AS MATERIALIZED (
    SELECT e.id FROM entity e
    WHERE e.tenant = %(tenant)s
      AND NOT EXISTS (SELECT FROM relation r WHERE r.tenant = %(tenant)s AND r.source = e.id)
      AND NOT EXISTS (SELECT FROM relation r WHERE r.tenant = %(tenant)s AND r.target = e.id)
    LIMIT %(limit)s
), names AS (
    DELETE FROM entity_name n USING bare WHERE n.tenant = %(tenant)s AND n.entity = bare.id
), gone AS (
    DELETE FROM entity e USING bare WHERE e.tenant = %(tenant)s AND e.id = bare.id RETURNING e.id
)
SELECT count(*) AS gone FROM gone;
