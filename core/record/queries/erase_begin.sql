-- as: app
-- One erasure for what is asked: asked again, it is the same one.
INSERT INTO erasure AS e (tenant, id, kind, asked) VALUES (%(tenant)s, %(id)s, %(kind)s, %(asked)s)
ON CONFLICT (tenant, asked) DO UPDATE SET confirmed_at = NULL
RETURNING id, begun_at, pending_until;
