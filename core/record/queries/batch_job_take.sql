-- as: app
-- A lease on a job that has not ended and that nobody works on.
UPDATE batch_job
SET lease_owner = %(owner)s, lease_until = now() + %(lease)s::interval
WHERE tenant = %(tenant)s AND id = %(id)s AND ended_at IS NULL
  AND (lease_until IS NULL OR lease_until <= now())
RETURNING tenant, id, generation, provider, model, state, created_at, deadline, inputs, tokens, provider_job,
          submitted_at, polled_at, done, ended_at, kept, refused, again, note, deadline <= now() AS overdue;
