-- as: app
UPDATE batch_job
SET lease_owner = NULL, lease_until = NULL
WHERE tenant = %(tenant)s AND id = %(id)s AND lease_owner = %(owner)s;
