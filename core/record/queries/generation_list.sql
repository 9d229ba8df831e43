-- as: app
SELECT tenant, number, index_group, space, state
FROM generation
WHERE tenant = %(tenant)s
ORDER BY number;
