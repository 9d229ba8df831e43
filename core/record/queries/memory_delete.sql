-- as: app
UPDATE memory
SET deleted_at = now(), updated_at = now(), version = next_version(version)
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND deleted_at IS NULL
RETURNING id, version;
