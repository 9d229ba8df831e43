-- as: worker
-- Newest day first. Days are UTC.
SELECT tenant, day, provider, model, requests, texts, tokens, batch_tokens, reused_texts, reused_tokens
FROM embedding_use
WHERE day > (now() AT TIME ZONE 'UTC')::date - %(days)s::integer
  AND (%(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[]))
ORDER BY day DESC, tenant, provider, model;
