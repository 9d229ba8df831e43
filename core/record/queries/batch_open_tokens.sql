-- as: worker
-- Tokens (estimated) that are in jobs of a model which have not ended, over all tenants.
SELECT coalesce(sum(tokens), 0)::bigint AS tokens
FROM batch_job
WHERE ended_at IS NULL AND provider = %(provider)s AND model = %(model)s;
