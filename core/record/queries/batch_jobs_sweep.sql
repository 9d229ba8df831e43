-- as: app
-- Ended jobs nobody asks about any more, with whatever items they have.
DELETE FROM batch_job
WHERE tenant = %(tenant)s AND ended_at < now() - %(keep)s::interval;
