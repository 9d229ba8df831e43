-- as: app
-- One generation, held against every other change of its state until the transaction ends.
SELECT tenant, number, index_group, space, state, dropping_at IS NOT NULL AS dropping
FROM generation
WHERE tenant = %(tenant)s AND number = %(number)s
FOR UPDATE;
