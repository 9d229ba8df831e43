-- as: app
UPDATE batch_job
SET state = 'cancelling'
WHERE tenant = %(tenant)s AND id = %(id)s AND ended_at IS NULL
RETURNING id;
