-- as: worker
-- Tokens asked of all models today (UTC), over all tenants, those in batch jobs that have not ended among them: what
-- a day's budget goes by.
SELECT (coalesce((SELECT sum(tokens) FROM embedding_use WHERE day = (now() AT TIME ZONE 'UTC')::date), 0)
        + coalesce((SELECT sum(tokens) FROM batch_job WHERE ended_at IS NULL), 0))::bigint AS tokens;
