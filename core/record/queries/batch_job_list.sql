-- as: worker
-- Jobs, newest first; `open_only`: those that have not ended. `overdue`: their entries go the normal way by now.
SELECT tenant, id, generation, provider, model, state, created_at, deadline, inputs, tokens, provider_job, submitted_at,
       polled_at, done, ended_at, kept, refused, again, note, deadline <= now() AS overdue
FROM batch_job
WHERE (%(tenants)s::text[] IS NULL OR tenant = ANY (%(tenants)s::text[]))
  AND (NOT %(open_only)s OR ended_at IS NULL)
ORDER BY created_at DESC, id
LIMIT %(limit)s;
