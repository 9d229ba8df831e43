-- as: app
-- First statement of what changes a job: is it still ours? The lease begins anew. Also counts what was put in.
UPDATE batch_job
SET lease_until = now() + %(lease)s::interval, inputs = inputs + %(inputs)s, tokens = tokens + %(tokens)s
WHERE tenant = %(tenant)s AND id = %(id)s AND lease_owner = %(owner)s AND ended_at IS NULL
RETURNING state;
