-- as: app
-- Tokens the generation's model has taken for the tenant since it was registered.
SELECT coalesce((SELECT sum(u.tokens) FROM embedding_use u
                 WHERE u.tenant = g.tenant AND u.provider = %(provider)s AND u.model = %(model)s), 0)::bigint
       - g.tokens_before AS tokens
FROM generation g
WHERE g.tenant = %(tenant)s AND g.number = %(number)s;
