-- as: app
SELECT count(*) AS memories
FROM memory
WHERE tenant = %(tenant)s AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now());
