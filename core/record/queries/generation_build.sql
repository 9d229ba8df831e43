-- as: app
-- A generation to be built, run by `runner` from the start. What its model took before is noted, for its costs.
INSERT INTO generation
    (tenant, number, index_group, space, fingerprint, state, runner, runner_until, tokens_before)
SELECT %(tenant)s, coalesce(max(g.number), 0) + 1, %(index_group)s, %(space)s, %(fingerprint)s, 'building',
       %(runner)s, now() + %(lease)s::interval,
       coalesce((SELECT sum(tokens) FROM embedding_use
                 WHERE tenant = %(tenant)s AND provider = %(provider)s AND model = %(model)s), 0)
FROM generation g
WHERE g.tenant = %(tenant)s
RETURNING tenant, number, index_group, space, state;
