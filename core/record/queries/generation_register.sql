-- as: app
INSERT INTO generation (tenant, number, index_group, space, fingerprint, state)
SELECT %(tenant)s, coalesce(max(number), 0) + 1, %(index_group)s, %(space)s, %(fingerprint)s, %(state)s
FROM generation
WHERE tenant = %(tenant)s
RETURNING tenant, number, index_group, space, state;
