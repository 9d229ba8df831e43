-- as: app
-- The memory that is to support relations, held as it is: whoever deletes or changes it waits.
SELECT key_id IS NOT NULL AS sealed
FROM memory
WHERE tenant = %(tenant)s AND id = %(id)s AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now())
FOR SHARE;
