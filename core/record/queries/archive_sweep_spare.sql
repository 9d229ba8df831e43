-- as: app
-- A mark that a record came to point at before it was there is taken back.
UPDATE archive_object SET swept_at = NULL
WHERE tenant = %(tenant)s AND key = ANY (%(keys)s::text[]) AND swept_at IS NOT NULL;
