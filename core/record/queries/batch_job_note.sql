-- as: app
-- What the provider says of a job. One that is to be cancelled stays so.
UPDATE batch_job
SET provider_job = %(provider_job)s, submitted_at = coalesce(submitted_at, now()),
    polled_at = CASE WHEN %(polled)s THEN now() ELSE polled_at END, done = greatest(done, %(done)s),
    state = CASE WHEN state = 'cancelling' THEN state WHEN %(polled)s THEN 'running' ELSE 'submitted' END
WHERE tenant = %(tenant)s AND id = %(id)s AND lease_owner = %(owner)s AND ended_at IS NULL
RETURNING state;
