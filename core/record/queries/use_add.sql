-- as: app
INSERT INTO embedding_use AS u
    (tenant, provider, model, requests, texts, tokens, batch_tokens, reused_texts, reused_tokens)
VALUES (%(tenant)s, %(provider)s, %(model)s, %(requests)s, %(texts)s, %(tokens)s, %(batch_tokens)s, %(reused_texts)s,
        %(reused_tokens)s)
ON CONFLICT (tenant, day, provider, model) DO UPDATE
SET requests = u.requests + excluded.requests, texts = u.texts + excluded.texts, tokens = u.tokens + excluded.tokens,
    batch_tokens = u.batch_tokens + excluded.batch_tokens,
    reused_texts = u.reused_texts + excluded.reused_texts, reused_tokens = u.reused_tokens + excluded.reused_tokens;
