-- as: app
UPDATE erasure SET pending_until = greatest(pending_until, now() + %(span)s::interval)
WHERE tenant = %(tenant)s AND id = %(erasure)s;
