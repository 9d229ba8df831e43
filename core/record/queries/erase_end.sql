-- as: app
UPDATE erasure
SET confirmed_at = CASE WHEN %(gone)s AND pending_until <= now() THEN now() END, ended_at = coalesce(ended_at, now())
WHERE tenant = %(tenant)s AND id = %(erasure)s
RETURNING begun_at, pending_until, confirmed_at, now() AS moment;
