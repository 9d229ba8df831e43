-- as: worker
-- Tokens asked of one model today (UTC), over all tenants: what a day's budget goes by.
SELECT coalesce(sum(tokens), 0)::bigint AS tokens
FROM embedding_use
WHERE day = (now() AT TIME ZONE 'UTC')::date AND provider = %(provider)s AND model = %(model)s;
