-- as: worker
-- Tokens asked of one model today (UTC), over all tenants, those in batch jobs that have not ended among them: what
-- a day's budget goes by.
SELECT (coalesce((
            SELECT sum(tokens) FROM embedding_use
            WHERE day = (now() AT TIME ZONE 'UTC')::date AND provider = %(provider)s AND model = %(model)s), 0)
        + coalesce((
            SELECT sum(tokens) FROM batch_job
            WHERE ended_at IS NULL AND provider = %(provider)s AND model = %(model)s), 0))::bigint AS tokens;
