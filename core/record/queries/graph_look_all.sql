-- as: app
-- What a tenant's graph holds that no living memory supports.
SELECT (SELECT count(*) FROM relation r
        WHERE r.tenant = %(tenant)s
          AND NOT EXISTS (SELECT FROM memory m
                          WHERE m.tenant = %(tenant)s AND m.id = r.memory_id AND m.deleted_at IS NULL))
     + (SELECT count(*) FROM entity e
        WHERE e.tenant = %(tenant)s
          AND NOT EXISTS (SELECT FROM relation r WHERE r.tenant = %(tenant)s AND r.source = e.id)
          AND NOT EXISTS (SELECT FROM relation r WHERE r.tenant = %(tenant)s AND r.target = e.id)) AS held;
