-- as: app
INSERT INTO batch_job (tenant, id, generation, fingerprint, provider, model, deadline, lease_owner, lease_until)
VALUES (%(tenant)s, %(id)s, %(generation)s, %(fingerprint)s, %(provider)s, %(model)s, now() + %(wait)s::interval,
        %(owner)s, now() + %(lease)s::interval)
RETURNING deadline;
