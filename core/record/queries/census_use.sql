-- as: worker
-- What embedding took today (UTC), by model, over all tenants.
SELECT provider, model, sum(requests)::bigint AS requests, sum(texts)::bigint AS texts, sum(tokens)::bigint AS tokens,
       sum(batch_tokens)::bigint AS batch_tokens, sum(reused_texts)::bigint AS reused_texts,
       sum(reused_tokens)::bigint AS reused_tokens
FROM embedding_use
WHERE day = (now() AT TIME ZONE 'UTC')::date
GROUP BY provider, model
ORDER BY provider, model;
