-- as: app
-- One erasure for what is asked: asked again, it is the same one, and goes on where it stood. Once it has ended it is
-- looked for again; once that was confirmed, asking means all that is there now.
INSERT INTO erasure AS e (tenant, id, kind, asked) VALUES (%(tenant)s, %(id)s, %(kind)s, %(asked)s)
ON CONFLICT (tenant, asked) DO UPDATE
SET begun_at = CASE WHEN e.confirmed_at IS NULL THEN e.begun_at ELSE now() END,
    ended_at = CASE WHEN e.confirmed_at IS NULL THEN e.ended_at END,
    collect_after = CASE WHEN e.confirmed_at IS NULL THEN e.collect_after ELSE '' END,
    collected = e.collected AND e.confirmed_at IS NULL,
    round_at = CASE WHEN e.ended_at IS NULL AND e.confirmed_at IS NULL THEN e.round_at ELSE now() END,
    confirmed_at = NULL
RETURNING id, collect_after, (ended_at IS NOT NULL) AS ended, (collected OR ended_at IS NOT NULL) AS collected;
