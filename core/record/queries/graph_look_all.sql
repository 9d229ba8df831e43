-- as: app
-- What a tenant's graph holds that no living memory supports.
SELECT (SELECT count(*) FROM relation r
        WHERE r.tenant = %(tenant)s
          AND (SELECT true FROM memory
               WHERE tenant = %(tenant)s AND id = r.memory_id AND deleted_at IS NULL LIMIT 1) IS NULL)
     + (SELECT count(*) FROM entity e
        WHERE e.tenant = %(tenant)s
          AND (SELECT true FROM relation WHERE tenant = %(tenant)s AND source = e.id LIMIT 1) IS NULL
          AND (SELECT true FROM relation WHERE tenant = %(tenant)s AND target = e.id LIMIT 1) IS NULL) AS held;
