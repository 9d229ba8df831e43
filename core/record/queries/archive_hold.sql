-- as: app
-- Announcements that are still alive, kept from a sweep until this transaction ends.
SELECT key FROM archive_object
WHERE tenant = %(tenant)s AND key = ANY (%(keys)s::text[]) AND swept_at IS NULL AND live_until > now()
ORDER BY key
FOR SHARE;
